package serve

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// obvious says yes to messages that certainly keep the rules of their proto, by looking at the structs that protobuf generates and at
// the few rules that nearly all fields have. Wherever it does not say yes, the validator decides, and finds the words: it goes through
// protobuf's reflection, which is an eighth of what a short call costs.
type obvious struct {
	mu    sync.RWMutex
	types map[reflect.Type]*messageRules // by pointer to the struct; as many as there are types of messages
}

func newObvious() *obvious { return &obvious{types: map[reflect.Type]*messageRules{}} }

// messageRules are those of one type of message.
type messageRules struct {
	unsure bool // there is more than is known here
	fields []fieldRules
}

type fieldRules struct {
	index int
	kept  func(field reflect.Value) bool
}

// kept says whether a message certainly keeps its rules.
func (o *obvious) kept(m proto.Message) bool {
	v := reflect.ValueOf(m)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	o.mu.RLock()
	rules := o.types[v.Type()]
	o.mu.RUnlock()
	if rules == nil {
		o.mu.Lock()
		rules = o.rulesOf(v.Type(), m.ProtoReflect().Descriptor())
		o.mu.Unlock()
	}
	return rules.kept(v.Elem())
}

func (r *messageRules) kept(message reflect.Value) bool {
	if r.unsure {
		return false
	}
	for i := range r.fields {
		if f := &r.fields[i]; !f.kept(message.Field(f.index)) {
			return false
		}
	}
	return true
}

// rulesOf finds the rules of a type, and of those that it holds. The caller holds mu.
func (o *obvious) rulesOf(t reflect.Type, desc protoreflect.MessageDescriptor) *messageRules {
	if known := o.types[t]; known != nil {
		return known
	}
	r := &messageRules{}
	o.types[t] = r // before it is complete: a message may hold others of its type
	rules, err := protovalidate.ResolveMessageRules(desc)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || err != nil || rules != nil {
		r.unsure = true
		return r
	}
	byNumber := fieldsByNumber(t.Elem())
	for i := range desc.Fields().Len() {
		fd := desc.Fields().Get(i)
		if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
			continue
		}
		index, there := byNumber[fd.Number()]
		if !there {
			r.unsure = true
			return r
		}
		if kept := o.field(fd, t.Elem().Field(index).Type); kept != nil {
			r.fields = append(r.fields, fieldRules{index, kept})
		}
	}
	r.unsure = !o.addOneofs(r, t, desc)
	return r
}

// fieldsByNumber reads the tags of a generated struct, `protobuf:"bytes,1,opt,…"`.
func fieldsByNumber(message reflect.Type) map[protoreflect.FieldNumber]int {
	found := map[protoreflect.FieldNumber]int{}
	for i := range message.NumField() {
		if tag := strings.Split(message.Field(i).Tag.Get("protobuf"), ","); len(tag) > 1 {
			if n, err := strconv.ParseInt(tag[1], 10, 32); err == nil {
				found[protoreflect.FieldNumber(n)] = i
			}
		}
	}
	return found
}

// addOneofs adds what each choice holds; false where a oneof has rules of its own.
func (o *obvious) addOneofs(r *messageRules, t reflect.Type, desc protoreflect.MessageDescriptor) bool {
	for i := range desc.Oneofs().Len() {
		oneof := desc.Oneofs().Get(i)
		if oneof.IsSynthetic() {
			continue
		}
		if rules, err := protovalidate.ResolveOneofRules(oneof); err != nil || rules != nil {
			return false
		}
		index := -1
		for i := range t.Elem().NumField() {
			if t.Elem().Field(i).Tag.Get("protobuf_oneof") == string(oneof.Name()) {
				index = i
			}
		}
		if index < 0 {
			return false
		}
		choices := map[reflect.Type]func(reflect.Value) bool{}
		for i := range oneof.Fields().Len() {
			fd, one := oneof.Fields().Get(i), reflect.New(t.Elem())
			if rules, err := protovalidate.ResolveFieldRules(fd); err != nil || rules.GetRequired() {
				return false
			}
			m := one.Interface().(proto.Message).ProtoReflect()
			m.Set(fd, m.NewField(fd))
			wrapper := one.Elem().Field(index).Elem().Type()
			choices[wrapper] = o.field(fd, wrapper.Elem().Field(0).Type)
		}
		r.fields = append(r.fields, fieldRules{index, func(v reflect.Value) bool {
			if v.IsNil() {
				return true
			}
			v = v.Elem()
			kept, known := choices[v.Type()]
			return known && !v.IsNil() && (kept == nil || kept(v.Elem().Field(0)))
		}})
	}
	return true
}

// field makes what says whether a field certainly keeps its rules; nil where it always does.
func (o *obvious) field(fd protoreflect.FieldDescriptor, t reflect.Type) func(reflect.Value) bool {
	resolved, err := protovalidate.ResolveFieldRules(fd)
	if err != nil {
		return never
	}
	required, kind, rules, ok := split(resolved.ProtoReflect())
	var kept func(reflect.Value) bool
	switch {
	case !ok:
		kept = never
	case fd.IsMap():
		kept = empty(rules)
	case fd.IsList():
		kept = o.list(fd, t, kind, rules)
	default:
		kept = o.value(fd, t, kind, rules)
	}
	return present(fd, t, required, kept)
}

// present applies what a field that is not there has to keep.
func present(fd protoreflect.FieldDescriptor, t reflect.Type, required bool, kept func(reflect.Value) bool) func(reflect.Value) bool {
	if kept == nil && !required {
		return nil
	}
	chosen := fd.ContainingOneof() != nil && !fd.ContainingOneof().IsSynthetic()
	optional := fd.HasPresence() && !chosen
	if required && !optional {
		return never
	}
	scalar := t.Kind() == reflect.Pointer && fd.Message() == nil
	return func(v reflect.Value) bool {
		switch {
		case v.IsZero() && optional:
			return !required
		case v.Kind() == reflect.Pointer && v.IsNil():
			return false
		case kept == nil:
			return true
		case scalar:
			v = v.Elem()
		}
		return kept(v)
	}
}

// split takes rules apart: `required`, and those of one kind. False where there are more.
func split(all protoreflect.Message) (required bool, kind protoreflect.Name, rules protoreflect.Message, ok bool) {
	ok = len(all.GetUnknown()) == 0
	all.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Name() == "required":
			required = v.Bool()
		case fd.Message() != nil && !fd.IsList() && rules == nil:
			kind, rules = fd.Name(), v.Message()
		default:
			ok = false
		}
		return ok
	})
	return required, kind, rules, ok
}

func never(reflect.Value) bool { return false }

// empty is for maps, whose entries are the validator's.
func empty(rules protoreflect.Message) func(reflect.Value) bool {
	if rules != nil {
		return never
	}
	return func(v reflect.Value) bool { return v.Len() == 0 }
}

func (o *obvious) list(fd protoreflect.FieldDescriptor, t reflect.Type, kind protoreflect.Name, rules protoreflect.Message) func(reflect.Value) bool {
	if rules != nil && kind != "repeated" || !only(rules, "min_items", "max_items") {
		return never
	}
	bounds := boundsOf(rules, "min_items", "max_items")
	each := o.value(fd, t.Elem(), "", nil)
	if each == nil && rules == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		if !bounds.hold(int64(v.Len())) {
			return false
		}
		for i := 0; each != nil && i < v.Len(); i++ {
			if item := v.Index(i); item.Kind() == reflect.Pointer && item.IsNil() || !each(item) {
				return false
			}
		}
		return true
	}
}

// value is for one value that is there.
func (o *obvious) value(fd protoreflect.FieldDescriptor, t reflect.Type, kind protoreflect.Name, rules protoreflect.Message) func(reflect.Value) bool {
	if fd.Message() != nil {
		if rules != nil {
			return never
		}
		if fd.Message().ParentFile().Package() == "google.protobuf" {
			return nil // of protobuf itself, without rules
		}
		inner := o.rulesOf(t, fd.Message())
		return func(v reflect.Value) bool { return inner.kept(v.Elem()) }
	}
	if rules == nil {
		return nil
	}
	switch kind {
	case "string":
		return text(rules)
	case "enum":
		return enum(fd, rules)
	case "int32", "int64", "uint32", "uint64":
		return number(rules)
	}
	return never
}

func text(rules protoreflect.Message) func(reflect.Value) bool {
	if !only(rules, "min_len", "max_len", "min_bytes", "max_bytes") {
		return never
	}
	length, size := boundsOf(rules, "min_len", "max_len"), boundsOf(rules, "min_bytes", "max_bytes")
	return func(v reflect.Value) bool {
		s := v.String()
		return size.hold(int64(len(s))) && (length == unbounded || length.hold(int64(utf8.RuneCountInString(s))))
	}
}

func enum(fd protoreflect.FieldDescriptor, rules protoreflect.Message) func(reflect.Value) bool {
	if !only(rules, "defined_only") {
		return never
	}
	values := fd.Enum().Values()
	return func(v reflect.Value) bool { return values.ByNumber(protoreflect.EnumNumber(v.Int())) != nil }
}

func number(rules protoreflect.Message) func(reflect.Value) bool {
	bounds := boundsOf(rules, "gte", "lte")
	if !only(rules, "gte", "lte") || bounds.min > bounds.max { // then it means all but what is between
		return never
	}
	return func(v reflect.Value) bool {
		if v.CanInt() {
			return bounds.hold(v.Int())
		}
		return v.Uint() <= math.MaxInt64 && bounds.hold(int64(v.Uint()))
	}
}

// bounds are inclusive.
type bounds struct{ min, max int64 }

var unbounded = bounds{math.MinInt64, math.MaxInt64}

func (b bounds) hold(n int64) bool { return n >= b.min && n <= b.max }

// boundsOf reads those that rules have by these names. What no int64 holds is refused by every value, which leaves it to the validator.
func boundsOf(rules protoreflect.Message, least, most protoreflect.Name) bounds {
	b := unbounded
	for name, to := range map[protoreflect.Name]*int64{least: &b.min, most: &b.max} {
		if rules == nil {
			continue
		}
		fd := rules.Descriptor().Fields().ByName(name)
		if fd == nil || !rules.Has(fd) {
			continue
		}
		switch n := rules.Get(fd).Interface().(type) {
		case int32:
			*to = int64(n)
		case int64:
			*to = n
		case uint32:
			*to = int64(n)
		case uint64:
			if n > math.MaxInt64 {
				return bounds{0, -1}
			}
			*to = int64(n)
		}
	}
	return b
}

// only says whether there are no rules but these.
func only(rules protoreflect.Message, names ...protoreflect.Name) bool {
	if rules == nil {
		return true
	}
	known := len(rules.GetUnknown()) == 0
	rules.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		known = known && slices.Contains(names, fd.Name()) && !fd.IsExtension()
		return known
	})
	return known
}
