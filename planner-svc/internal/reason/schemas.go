package reason

import "pawl.dev/planner-svc/internal/model"

const (
	riskSchema = `{"type":"object","properties":{"level":{"enum":["LOW","MEDIUM","HIGH"]},"reason":{"type":"string","minLength":1}},"required":["level","reason"],"additionalProperties":false}`
	stepSchema = `{"type":"object","properties":{"tool_id":{"type":"string","minLength":1},"description":{"type":"string"},"input":{"type":"object"},` +
		`"risk":` + riskSchema + `,"missing":{"type":"array","items":{"type":"string"}}},"required":["tool_id","description"],"additionalProperties":false}`
)

// schemas are the shapes of structured answers, as they are sent to models that can keep to them.
var schemas = map[model.Purpose]string{
	model.FlowName:      `{"type":"object","properties":{"name":{"type":"string","minLength":1}},"required":["name"],"additionalProperties":false}`,
	model.FlowRisk:      riskSchema,
	model.PlanSteps:     `{"type":"object","properties":{"steps":{"type":"array","items":` + stepSchema + `,"minItems":1,"maxItems":10}},"required":["steps"],"additionalProperties":false}`,
	model.NextStep:      `{"type":"object","properties":{"tool_id":{"type":"string","minLength":1},"description":{"type":"string"}},"required":["tool_id","description"],"additionalProperties":false}`,
	model.InputParams:   `{"type":"object","properties":{"input":{"type":"object"},"missing":{"type":"array","items":{"type":"string"}}},"required":["input"],"additionalProperties":false}`,
	model.FillParams:    `{"type":"object","properties":{"input":{"type":"object"}},"required":["input"],"additionalProperties":false}`,
	model.ToolRisk:      riskSchema,
	model.IsParamError:  `{"type":"object","properties":{"is_param_error":{"type":"boolean"}},"required":["is_param_error"],"additionalProperties":false}`,
	model.DescribeError: `{"type":"object","properties":{"message":{"type":"string","minLength":1}},"required":["message"],"additionalProperties":false}`,
	model.MissingParams: `{"type":"object","properties":{"schema":{"type":"object","properties":{"properties":{"type":"object"}},"required":["properties"]}},"required":["schema"],"additionalProperties":false}`,
}
