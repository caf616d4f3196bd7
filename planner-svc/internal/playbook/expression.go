package playbook

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
const maxCost = 1_000_000

// stepsName is what expressions call the earlier steps.
const stepsName = "steps"

// expression is a CEL expression over `goal`, `inputs` and `steps`. It is compiled once per playbook and has no effects.
type expression struct {
	program cel.Program
	steps   []string // the ids of the steps that it reads
}

// values makes CEL values of what celValue returns. Maps iterate in the order of their keys, because an expression must give the same
// result each time that the history is replayed.
var values = ordered{types.DefaultTypeAdapter}

// environment declares what expressions may read.
func environment() (*cel.Env, error) {
	named := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(cel.CustomTypeAdapter(values), cel.CrossTypeNumericComparisons(true), cel.ASTValidators(cel.ValidateRegexLiterals()),
		cel.Variable(goalName, cel.StringType), cel.Variable(inputsName, named), cel.Variable(stepsName, named))
}

// expression reads an expression whose result has that type. Uses are the steps that it reads.
func (r *reader) expression(p *Playbook, n *yaml.Node, key string, result *cel.Type) (*expression, []use) {
	text := r.text(n, key)
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) { r.wrong(n, "`"+key+"`: "+fmt.Sprintf(format, args...)) }
	if r.env == nil {
		env, err := environment()
		if err != nil {
			wrong("%v", err)
			return nil, nil
		}
		r.env = env
	}
	checked, issues := r.env.Compile(text)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			message, _, _ := strings.Cut(strings.TrimSuffix(e.Message, " (in container '')"), " expecting ") // any of thirty tokens
			wrong("%s (at character %d)", message, e.Location.Column()+1)
		}
		return nil, nil
	}
	if got := checked.OutputType(); !got.IsExactType(cel.DynType) && !result.IsAssignableType(got) {
		wrong("it must be a %s, but is a %s", strings.TrimSuffix(result.String(), "(dyn)"), got)
	}
	steps, inputs, err := reads(checked.NativeRep().Expr())
	if err != nil {
		wrong("%v", err)
	}
	for _, name := range inputs {
		r.checkInput(p, n.Line, "`"+key+"`", name)
	}
	program, err := r.env.Program(checked, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		wrong("%v", err)
	}
	var uses []use
	for _, id := range steps {
		uses = append(uses, use{ref: jsonref.Ref{Name: id}, line: n.Line, text: "steps." + id})
	}
	return &expression{program: program, steps: steps}, uses
}

// reads returns the steps and inputs that an expression reads. They must be named, so that it is known which steps must have ended
// before the expression can be evaluated. Maps cannot be written, because CEL iterates over them in a random order.
func reads(root ast.Expr) (steps, inputs []string, err error) {
	idents := 0
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		var of ast.Expr
		name := ""
		switch e.Kind() {
		case ast.MapKind, ast.StructKind:
			err = errors.New("maps cannot be written in an expression")
		case ast.IdentKind:
			if e.AsIdent() == stepsName || e.AsIdent() == inputsName {
				idents++
			}
		case ast.SelectKind:
			of, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
		case ast.CallKind:
			if c := e.AsCall(); c.FunctionName() == celop.Index && c.Args()[1].Kind() == ast.LiteralKind {
				of = c.Args()[0]
				name, _ = c.Args()[1].AsLiteral().Value().(string)
			}
		}
		if of == nil || of.Kind() != ast.IdentKind || name == "" {
			return
		}
		switch of.AsIdent() {
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

// eval evaluates an expression; the steps that it reads must have ended.
func (r *run) eval(x *expression) (ref.Val, error) {
	steps := map[string]any{}
	for _, id := range x.steps {
		steps[id] = r.valueOf(r.byID[id])
	}
	value, _, err := x.program.Eval(map[string]any{goalName: r.goal(), inputsName: celValue(r.inputs), stepsName: steps})
	switch {
	case err != nil && strings.Contains(err.Error(), "cost limit"):
		return nil, errors.New("it takes too much work; make it simpler, or the list that it reads shorter")
	case err != nil:
		return nil, fmt.Errorf("%w%s", err, r.withoutOutput(x.steps))
	}
	return value, nil
}

// valueOf is what expressions see of a step that has ended.
func (r *run) valueOf(i int) any {
	st := &r.states[i]
	if st.value == nil {
		st.value = map[string]any{"status": st.status}
		switch value := celValue(st.output).(type) {
		case map[string]any:
			if st.status != success {
				st.value["error"] = value["error"]
				break
			}
			st.value["output"] = value
		default:
			st.value["output"] = value
		}
	}
	return st.value
}

type ordered struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (o ordered) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return sortedMap{types.NewStringInterfaceMap(o, v), v}
	case []any:
		return types.NewDynamicList(o, v)
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

// celValue reads JSON for an expression: whole numbers as int where they fit, others as double, and those beyond both as text.
func celValue(raw string) any {
	switch strictjson.Kind(raw) {
	case "object":
		object := map[string]any{}
		for key, value := range strictjson.Members(raw) {
			object[key] = celValue(value)
		}
		return object
	case "array":
		list := []any{}
		for item := range strictjson.Items(raw) {
			list = append(list, celValue(item))
		}
		return list
	case "string":
		return strictjson.Content(raw)
	case "boolean":
		return strings.TrimSpace(raw) == "true"
	case "number":
		raw = strings.TrimSpace(raw)
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(raw, 64); err == nil {
			return f
		}
		return raw
	}
	return types.NullValue
}

// toJSON writes the result of an expression.
func toJSON(v ref.Val) (string, error) {
	switch v := v.(type) {
	case traits.Lister:
		var items []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			item, err := toJSON(it.Next())
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strictjson.Array(items), nil
	case traits.Mapper:
		o := &strictjson.Object{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			value, err := toJSON(v.Get(key))
			if err != nil {
				return "", err
			}
			o.Set(fmt.Sprint(key.Value()), value)
		}
		return o.String(), nil
	case types.Null:
		return "null", nil
	case types.Bool, types.Int, types.Uint, types.Double, types.String:
		return strictjson.Marshal(v.Value())
	}
	return "", fmt.Errorf("a %s has no JSON", v.Type().TypeName())
}
