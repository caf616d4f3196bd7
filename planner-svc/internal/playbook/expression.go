package playbook

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"

	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"
)

// maxCost bounds the work of one evaluation, in CEL's units: about one per operation and per ten bytes of text.
const maxCost = 300_000

// stepsName is the variable of expressions that holds the earlier steps.
const stepsName = "steps"

// expression is a CEL expression over `goal`, `inputs` and `steps`, or a JSON template. It is compiled once per playbook and has no effects.
type expression struct {
	program  cel.Program // nil: a template
	template string
	names    []string // of the steps that it reads
}

// values converts the results of celValue to CEL values. Maps iterate in the order of their keys, so that each replay of the history gives the
// same result.
var values = orderedAdapter{types.DefaultTypeAdapter}

// environment declares the variables of expressions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	named := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(cel.CustomTypeAdapter(values), cel.CrossTypeNumericComparisons(true), cel.ASTValidators(cel.ValidateRegexLiterals()),
		cel.Variable(goalName, cel.StringType), cel.Variable(inputsName, named), cel.Variable(stepsName, named))
})

// expression compiles the CEL expression of a key; its result must have the given type. It returns nil if the key is absent or the expression does not compile.
func (r *reader) expression(n *yaml.Node, key string, result *cel.Type) *expression {
	wrong := func(format string, args ...any) *expression {
		r.addProblem(n, "`"+key+"`: "+fmt.Sprintf(format, args...))
		return nil
	}
	if tag := n.ShortTag(); tag != "!!str" && tag != "!!bool" || strings.TrimSpace(n.Value) == "" { // absent, or of a wrong form
		return nil
	}
	env, err := environment()
	if err != nil {
		return wrong("%v", err)
	}
	checked, issues := env.Compile(n.Value)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			message, _, _ := strings.Cut(strings.TrimSuffix(e.Message, " (in container '')"), " expecting ") // leave out CEL's list of expected tokens
			wrong("%s (at character %d)", message, e.Location.Column()+1)
		}
		return nil
	}
	if got := checked.OutputType(); !got.IsExactType(cel.DynType) && !result.IsAssignableType(got) {
		wrong("it must be a %s, but is a %s", strings.TrimSuffix(result.String(), "(dyn)"), got)
	}
	steps, inputs, err := dependencies(checked.NativeRep().Expr())
	if err != nil {
		wrong("%v", err)
	}
	for _, id := range steps {
		r.checkStep(n, id, stepsName+"."+id)
	}
	for _, name := range inputs {
		r.checkInput(n, name)
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return wrong("%v", err)
	}
	return &expression{program: program, names: steps}
}

// dependencies returns the steps and inputs that an expression reads. An expression must name them as constants. It cannot contain a map, because CEL
// iterates over maps in a random order.
func dependencies(root ast.Expr) (steps, inputs []string, err error) {
	idents := 0
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		var operand ast.Expr
		name := ""
		switch e.Kind() {
		case ast.MapKind, ast.StructKind:
			err = errors.New("maps cannot be written in an expression")
		case ast.IdentKind:
			if e.AsIdent() == stepsName || e.AsIdent() == inputsName {
				idents++
			}
		case ast.SelectKind:
			operand, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == celop.Index && c.Args()[1].Kind() == ast.LiteralKind {
				operand = c.Args()[0]
				name, _ = c.Args()[1].AsLiteral().Value().(string)
			}
		}
		if operand == nil || operand.Kind() != ast.IdentKind || name == "" {
			return
		}
		switch operand.AsIdent() {
		case stepsName:
			steps = append(steps, name)
		case inputsName:
			inputs = append(inputs, name)
		default:
			return
		}
		idents--
	}))
	if idents != 0 {
		err = errors.New("`steps` and `inputs` must be followed by a name, as in steps.find.output and inputs.folder, or steps[\"read-all\"]")
	}
	slices.Sort(steps)
	return slices.Compact(steps), inputs, err
}

// eval returns the value of an expression of step i as JSON; the error is jsonref.ErrNotYet if a step that it reads has not ended.
func (r *run) eval(x *expression, i int) (string, error) {
	switch {
	case !r.ended(x.names, i):
		return "", jsonref.ErrNotYet
	case x.program == nil:
		return r.fill(x.template, place{step: i}, false)
	}
	steps := map[string]any{}
	for _, id := range x.names {
		st := &r.states[r.byID[id]]
		if st.omitted { // an earlier evaluation of the expression may have read the output
			return "", fmt.Errorf("the output of %s was left out, because the outputs of the task are too large", id)
		}
		steps[id] = st.forExpressions()
	}
	value, _, err := x.program.Eval(map[string]any{goalName: r.goal(), inputsName: celValue(r.inputs), stepsName: steps})
	switch {
	case err != nil && strings.Contains(err.Error(), "cost limit"):
		return "", errors.New("it takes too much work; simplify it, or shorten the list that it reads")
	case err != nil:
		return "", fmt.Errorf("%w%s", err, r.missingOutputs(x.names))
	}
	return toJSON(value)
}

// forExpressions returns the value of `steps.ID` for a step that has ended.
func (st *state) forExpressions() any {
	if st.value == nil {
		st.value = map[string]any{"status": st.status, "output": celValue(st.output)}
		if failed, ok := celValue(st.output).(map[string]any); ok && st.status != success {
			st.value = map[string]any{"status": st.status, "error": failed["error"]}
		}
	}
	return st.value
}

type orderedAdapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (o orderedAdapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return sortedMap{types.NewStringInterfaceMap(o, v), v}
	case []any:
		return types.NewDynamicList(o, v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return types.Int(n)
		} else if f, err := v.Float64(); err == nil {
			return types.Double(f)
		}
		return types.String(v)
	}
	return o.Adapter.NativeToValue(value)
}

type sortedMap struct {
	traits.Mapper
	members map[string]any
}

// Iterator implements traits.Iterable.
func (m sortedMap) Iterator() traits.Iterator {
	return types.NewStringList(values, slices.Sorted(maps.Keys(m.members))).Iterator()
}

// celValue reads JSON for an expression: whole numbers as int if they fit, other numbers as double, and numbers too large for either as text.
func celValue(raw string) (value any) {
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // raw was checked
	return value
}

// toJSON returns the result of an expression as JSON.
func toJSON(v ref.Val) (string, error) {
	list, ok := v.(traits.Lister)
	switch {
	case v == types.NullValue:
		return "null", nil
	case !ok:
		return strictjson.Marshal(v.Value())
	}
	var items []string
	for it := list.Iterator(); it.HasNext() == types.True; {
		item, err := toJSON(it.Next())
		if err != nil {
			return "", err
		}
		items = append(items, item)
	}
	return strictjson.Array(items), nil
}
