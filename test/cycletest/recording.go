package cycletest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// A Recording is one chain as it really went: at each step all that Next was given, and what it decided. The file says only what
// has changed since the step before, as paths into cycle and journal, so that a reader sees what led to a decision.
type Recording struct {
	Chain string            `json:"chain"`
	Ends  ops.CycleStatus   `json:"ends"`
	Steps []json.RawMessage `json:"steps"` // frames, one to a line
}

type frame struct {
	At   time.Time                  `json:"at"`
	Set  map[string]json.RawMessage `json:"set,omitempty"`
	Gone []string                   `json:"gone,omitempty"`
	Step json.RawMessage            `json:"step"`
}

// Taken is one decision with everything it was made from.
type Taken struct {
	Cycle   ops.Cycle
	Journal ops.Journal
	At      time.Time
	Step    ops.Step
}

// EncodeRecording turns decisions into the text of a recording.
func EncodeRecording(t testing.TB, chain string, ends ops.CycleStatus, all []Taken) []byte {
	t.Helper()
	r := Recording{Chain: chain, Ends: ends}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"chain\":%q,\"ends\":%q,\"steps\":[", r.Chain, r.Ends)
	before := map[string]json.RawMessage{}
	for i, d := range all {
		now := paths(t, d.Cycle, d.Journal)
		f := frame{At: d.At, Set: map[string]json.RawMessage{}, Step: plainJSON(t, sparse(reflect.ValueOf(d.Step)))}
		for k, v := range now {
			if !bytes.Equal(before[k], v) {
				f.Set[k] = v
			}
		}
		for k := range before {
			if _, still := now[k]; !still {
				f.Gone = append(f.Gone, k)
			}
		}
		slices.Sort(f.Gone)
		before = now
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(plainJSON(t, f))
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
}

// DecodeRecording reads a Recording back. A field that is no longer known is an error: what was decided from it would be
// decided from something else now.
func DecodeRecording(raw []byte) (Recording, []Taken, error) {
	var r Recording
	if err := strictly(raw, &r); err != nil {
		return r, nil, err
	}
	state := map[string]json.RawMessage{}
	var out []Taken
	for i, line := range r.Steps {
		var f frame
		if err := strictly(line, &f); err != nil {
			return r, nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		maps.Copy(state, f.Set)
		for _, k := range f.Gone {
			delete(state, k)
		}
		d := Taken{At: f.At}
		for prefix, into := range map[string]any{"cycle": &d.Cycle, "journal": &d.Journal} {
			if err := gather(state, prefix, into); err != nil {
				return r, nil, fmt.Errorf("step %d: %s: %w", i+1, prefix, err)
			}
		}
		if err := strictly(f.Step, &d.Step); err != nil {
			return r, nil, fmt.Errorf("step %d: decision: %w", i+1, err)
		}
		out = append(out, d)
	}
	return r, out, nil
}

func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// paths lists the fields of cycle and journal that are set, and each element of their lists by itself.
func paths(t testing.TB, c ops.Cycle, j ops.Journal) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	for prefix, v := range map[string]any{"cycle": c, "journal": j} {
		fields, _ := sparse(reflect.ValueOf(v)).(map[string]any)
		for name, value := range fields {
			list, isList := value.([]any)
			if !isList || len(list) == 0 {
				out[prefix+"."+name] = plainJSON(t, value)
			}
			for i, element := range list {
				out[fmt.Sprintf("%s.%s.%d", prefix, name, i)] = plainJSON(t, element)
			}
		}
	}
	return out
}

// gather builds a struct from its paths.
func gather(state map[string]json.RawMessage, prefix string, into any) error {
	fields := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		parts := strings.Split(key, ".")
		switch {
		case parts[0] != prefix:
		case len(parts) == 2:
			fields[parts[1]] = state[key]
		default:
			i, err := strconv.Atoi(parts[2])
			if err != nil {
				return fmt.Errorf("path %s: %w", key, err)
			}
			list, _ := fields[parts[1]].([]json.RawMessage)
			for len(list) <= i {
				list = append(list, nil)
			}
			list[i] = state[key]
			fields[parts[1]] = list
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return strictly(raw, into)
}

// sparse is a value as JSON shows it, without the fields that are not set. A pointer to zero is set.
func sparse(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler, []byte:
		return v.Interface()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return sparse(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported() || v.Field(i).IsZero() || f.Tag.Get("json") == "-":
			case f.Anonymous:
				embedded, _ := sparse(v.Field(i)).(map[string]any)
				maps.Copy(out, embedded)
			default:
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" {
					name = f.Name
				}
				out[name] = sparse(v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = sparse(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[fmt.Sprint(k)] = sparse(v.MapIndex(k))
		}
		return out
	default: // a number, a text or a truth value
		return v.Interface()
	}
}

func plainJSON(t testing.TB, v any) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// Recorded lists the files of the recordings.
func Recorded(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/replay/*.json")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ReadRecording reads one recording.
func ReadRecording(t testing.TB, file string) (Recording, []Taken) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, all, err := DecodeRecording(raw)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r, all
}

// Differences names every value in which two steps differ.
func Differences(t testing.TB, was, is ops.Step) []string {
	t.Helper()
	return compare("", generic(t, was), generic(t, is))
}

// generic is a step as plain values, as it is written.
func generic(t testing.TB, s ops.Step) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(plainJSON(t, sparse(reflect.ValueOf(s))), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// compare names every value that differs, by its path.
func compare(path string, was, is any) []string {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	before, both := was.(map[string]any)
	after, ok := is.(map[string]any)
	if both && ok {
		keys := maps.Clone(before)
		maps.Copy(keys, after)
		var out []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if _, known := before[k]; !known && strings.HasPrefix(path, ".Decision.Inputs") && nothing(after[k]) {
				continue // a decision keeps the whole policy, also what was added to it since
			}
			out = append(out, compare(path+"."+k, before[k], after[k])...)
		}
		return out
	}
	list, both := was.([]any)
	other, ok := is.([]any)
	if both && ok && len(list) == len(other) {
		var out []string
		for i := range list {
			out = append(out, compare(fmt.Sprintf("%s[%d]", path, i), list[i], other[i])...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s was %s, is %s", strings.TrimPrefix(path, "."), briefly(was), briefly(is))}
}

// nothing reports whether a value says nothing.
func nothing(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(x any) bool { return !nothing(x) })
	case []any:
		return len(v) == 0
	}
	return v == nil || reflect.ValueOf(v).IsZero()
}

func briefly(v any) string {
	const most = 300
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}
