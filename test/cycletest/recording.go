package cycletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// A Recording is one chain as it really went: at each step all that Next was given, and what it decided. The file says only what
// has changed since the step before, as paths into cycle and journal, so that a reader sees what led to a decision.
type Recording struct {
	Chain string            `json:"chain"`
	Ends  ops.CycleStatus   `json:"ends"`
	Steps []json.RawMessage `json:"steps"` // frames, one to a line
}

// Taken is one decision with everything it was made from.
type Taken = decide.Taken

// EncodeRecording turns decisions into the text of a recording.
func EncodeRecording(t testing.TB, chain string, ends ops.CycleStatus, all []Taken) []byte {
	t.Helper()
	record := decide.Record{}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"chain\":%q,\"ends\":%q,\"steps\":[", chain, ends)
	for i, d := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		frame, err := record.Frame(d)
		must(t, err)
		b.WriteByte('\n')
		b.Write(frame)
	}
	b.WriteString("\n]}\n")
	return b.Bytes()
}

// DecodeRecording reads a Recording back.
func DecodeRecording(raw []byte) (Recording, []Taken, error) {
	var r Recording
	if err := strictly(raw, &r); err != nil {
		return r, nil, err
	}
	all, err := DecodeFrames(r.Steps)
	return r, all, err
}

// DecodeFrames reads frames back.
func DecodeFrames(frames []json.RawMessage) ([]Taken, error) {
	var reel decide.Reel
	var out []Taken
	for i, raw := range frames {
		d, err := reel.Taken(raw)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func strictly(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Recorded lists the files of the recordings.
func Recorded(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/replay/*.json")
	must(t, err)
	return files
}

// ReadRecording reads one recording.
func ReadRecording(t testing.TB, file string) (Recording, []Taken) {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
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
	raw, err := decide.Sparse(s)
	must(t, err)
	var out any
	must(t, json.Unmarshal(raw, &out))
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

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
