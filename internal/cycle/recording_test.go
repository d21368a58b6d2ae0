package cycle_test

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

// A recording is one chain as it really went: at each step all that Next was given, and what it decided. The file says only what
// has changed since the step before, as paths into cycle and journal, so that a reader sees what led to a decision.
type recording struct {
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

// taken is one decision with everything it was made from.
type taken struct {
	cycle   ops.Cycle
	journal ops.Journal
	at      time.Time
	step    ops.Step
}

// write turns decisions into the text of a recording.
func encodeRecording(t *testing.T, chain string, ends ops.CycleStatus, all []taken) []byte {
	t.Helper()
	r := recording{Chain: chain, Ends: ends}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"chain\":%q,\"ends\":%q,\"steps\":[", r.Chain, r.Ends)
	before := map[string]json.RawMessage{}
	for i, d := range all {
		now := paths(t, d.cycle, d.journal)
		f := frame{At: d.at, Set: map[string]json.RawMessage{}, Step: plainJSON(t, sparse(reflect.ValueOf(d.step)))}
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

// decodeRecording reads a recording back. A field that is no longer known is an error: what was decided from it would be
// decided from something else now.
func decodeRecording(raw []byte) (recording, []taken, error) {
	var r recording
	if err := strictly(raw, &r); err != nil {
		return r, nil, err
	}
	state := map[string]json.RawMessage{}
	var out []taken
	for i, line := range r.Steps {
		var f frame
		if err := strictly(line, &f); err != nil {
			return r, nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		maps.Copy(state, f.Set)
		for _, k := range f.Gone {
			delete(state, k)
		}
		d := taken{at: f.At}
		for prefix, into := range map[string]any{"cycle": &d.cycle, "journal": &d.journal} {
			if err := gather(state, prefix, into); err != nil {
				return r, nil, fmt.Errorf("step %d: %s: %w", i+1, prefix, err)
			}
		}
		if err := strictly(f.Step, &d.step); err != nil {
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
func paths(t *testing.T, c ops.Cycle, j ops.Journal) map[string]json.RawMessage {
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
			case !f.IsExported() || v.Field(i).IsZero():
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

func plainJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// recorded lists the files of the recordings.
func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/replay/*.json")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func readRecording(t *testing.T, file string) (recording, []taken) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, all, err := decodeRecording(raw)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r, all
}
