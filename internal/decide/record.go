package decide

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Taken is one decision with everything it was made from. The policy is that of the cycle.
type Taken struct {
	Cycle   ops.Cycle
	Journal ops.Journal
	At      time.Time
	Step    ops.Step
}

// Lean leaves out what no decision is made from: the inputs that decisions keep, which say again what policy and sessions say.
func (t Taken) Lean() Taken {
	t.Journal.Decisions = slices.Clone(t.Journal.Decisions)
	for i := range t.Journal.Decisions {
		t.Journal.Decisions[i].Inputs = nil
	}
	if t.Step.Decision != nil {
		d := *t.Step.Decision
		d.Inputs = nil
		t.Step.Decision = &d
	}
	return t
}

// Frame is a decision as it is written. It says what has changed since the frame before, as paths into cycle and journal such as
// cycle.Status and journal.Sessions.0. Only a frame that says everything sets cycle.ID: it begins anew.
type Frame struct {
	At   time.Time                  `json:"at"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
	Gone []string                   `json:"gone,omitempty"`
	Step json.RawMessage            `json:"step"`
}

// Record writes the decisions of one cycle as frames. The first one says everything.
type Record struct{ last map[string]json.RawMessage }

// Frame writes the next decision.
func (f *Record) Frame(t Taken) ([]byte, error) {
	now, err := paths(t)
	if err != nil {
		return nil, err
	}
	step, err := Sparse(t.Step)
	if err != nil {
		return nil, fmt.Errorf("write step: %w", err)
	}
	out := Frame{At: t.At, Set: map[string]json.RawMessage{}, Step: step}
	for path, is := range now {
		if was, known := f.last[path]; !known || !bytes.Equal(was, is) {
			out.Set[path] = is
		}
	}
	for path := range f.last {
		if _, still := now[path]; !still {
			out.Gone = append(out.Gone, path)
		}
	}
	slices.Sort(out.Gone)
	f.last = now
	return plain(out)
}

// paths lists the fields of cycle and journal that are set, and each element of their lists by itself.
func paths(t Taken) (map[string]json.RawMessage, error) {
	values := map[string]any{}
	for prefix, v := range map[string]any{"cycle": t.Cycle, "journal": t.Journal} {
		fields, _ := sparse(v).(map[string]any)
		for name, value := range fields {
			list, isList := value.([]any)
			if !isList || len(list) == 0 {
				values[prefix+"."+name] = value
			}
			for i, element := range list {
				values[fmt.Sprintf("%s.%s.%d", prefix, name, i)] = element
			}
		}
	}
	out := make(map[string]json.RawMessage, len(values))
	for path, value := range values {
		var err error
		if out[path], err = plain(value); err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
	}
	return out, nil
}

// Sparse is a value as JSON, without the fields that are not set. A pointer to zero is set.
func Sparse(v any) (json.RawMessage, error) { return plain(sparse(v)) }

func sparse(v any) any { return sparseValue(reflect.ValueOf(v)) }

func sparseValue(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler, []byte:
		return v.Interface()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return sparseValue(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported() || v.Field(i).IsZero() || f.Tag.Get("json") == "-":
			case f.Anonymous:
				embedded, _ := sparseValue(v.Field(i)).(map[string]any)
				maps.Copy(out, embedded)
			default:
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" {
					name = f.Name
				}
				out[name] = sparseValue(v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = sparseValue(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[fmt.Sprint(k)] = sparseValue(v.MapIndex(k))
		}
		return out
	default: // a number, a text or a truth value
		return v.Interface()
	}
}

// plain is a value as JSON in which texts stand as they are.
func plain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
