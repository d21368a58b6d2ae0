package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What --json and -o yaml print has the values of -o json.
func TestFieldsAndYAMLHaveTheSameValues(t *testing.T) {
	e := newElsewhere(t)
	e.chain()
	var rows []map[string]any
	if err := json.Unmarshal([]byte(e.must("sessions", "list", "-o", "json")), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v: %v", rows, err)
	}
	if got := e.must("sessions", "list", "--json", "status,id", "-o", "jsonl"); got != "{\"status\":\"completed\",\"id\":2}\n{\"status\":\"completed\",\"id\":1}\n" {
		t.Errorf("fields:\n%s", got)
	}
	var picked []map[string]any
	if err := json.Unmarshal([]byte(e.must("sessions", "list", "--json", "id,model")), &picked); err != nil || len(picked) != 2 || len(picked[0]) != 2 {
		t.Errorf("%v: %v", picked, err)
	}
	for _, args := range [][]string{{"sessions", "list"}, {"cycles", "show", "1"}, {"sessions", "show", "1"}, {"version"}, {"costs"}} {
		var fromJSON, fromYAML any
		err := json.Unmarshal([]byte(e.must(append(args, "-o", "json")...)), &fromJSON)
		must(t, err)
		text := e.must(append(args, "-o", "yaml")...)
		if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again, err := json.Marshal(fromYAML)
		must(t, err)
		var back any
		must(t, json.Unmarshal(again, &back))
		drop(fromJSON, "until")
		drop(back, "until")
		if !reflect.DeepEqual(fromJSON, back) {
			t.Errorf("%v\n%v\n%v\n%s", args, fromJSON, back, text)
		}
	}
	code, _, errs := e.run("sessions", "list", "--json", "staus")
	if code != exitUsage || !strings.Contains(errs, `did you mean "status"?`) || !strings.Contains(errs, "cost_usd") {
		t.Errorf("an unknown field: exit %d, %s", code, errs)
	}
}

// drop removes the moment at which costs were added up.
func drop(v any, key string) {
	if m, ok := v.(map[string]any); ok {
		delete(m, key)
	}
}

// Text that looks like another type, and text with lines, stays text.
func TestYAMLKeepsText(t *testing.T) {
	var out bytes.Buffer
	a := &app{Process: Process{Stdout: &out}, output: asYAML}
	want := map[string]string{"number": "12", "yes": "yes", "date": "2026-05-01", "lines": "a\nb: c\n", "none": "null", "empty": "", "face": "😀 <b>"}
	must(t, a.encode(want))
	got := map[string]any{}
	must(t, yaml.Unmarshal(out.Bytes(), &got))
	for key, text := range want {
		if got[key] != text {
			t.Errorf("%s: %#v, want %q in\n%s", key, got[key], text, out.String())
		}
	}
}

func TestEmptyListsSaySo(t *testing.T) {
	e := newElsewhere(t)
	for args, want := range map[string]string{
		"sessions list": "No sessions found.", "incidents list": "No incidents found.", "approvals list": "No approvals found.",
		"memory list": "No memories found.", "notify list": "No notifications found.", "silences list": "No silences found.",
	} {
		code, out, errs := e.run(strings.Fields(args)...)
		if code != exitOK || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
		if out := e.must(append(strings.Fields(args), "-o", "json")...); out != "[]\n" {
			t.Errorf("%s as JSON: %q", args, out)
		}
	}
}
