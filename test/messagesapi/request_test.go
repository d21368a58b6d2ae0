package messagesapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"claudeops/test/messagesapi"
)

// conversation is the shape Claude Code gives a resumed conversation.
const conversation = `{"model":"m","messages":[
	{"role":"user","content":[{"type":"text","text":"<system-reminder>\nnote\n</system-reminder>"},{"type":"text","text":"first"}]},
	{"role":"system","content":"# Environment"},
	{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"a","name":"Bash","input":{"command":"ls"}}]},
	{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"is_error":true}]},
	{"role":"assistant","content":"done"},
	{"role":"user","content":[{"type":"text","text":"[structured-output-enforce] call it"}]},
	{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"StructuredOutput","input":{}}]},
	{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"ok"},{"type":"text","text":"second"}]},
	{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]},
	{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"z"}]},
	{"role":"system","content":[{"type":"text","text":"tokens left"}]}]}`

func parse(t *testing.T, text string) messagesapi.Request {
	t.Helper()
	var r messagesapi.Request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheConversationIsUnderstood(t *testing.T) {
	r := parse(t, conversation)
	if got := r.Prompts(); !slices.Equal(got, []string{"first", "second"}) || r.Prompt() != "second" {
		t.Errorf("prompts: %q", got)
	}
	if got := r.Turn(); got != 1 {
		t.Errorf("turn: %d", got)
	}
	if got, ok := r.Result("a"); !ok || got != (messagesapi.Result{Text: "x\ny", IsError: true}) {
		t.Errorf("result: %+v, %v", got, ok)
	}
	if _, ok := r.Result("none"); ok {
		t.Error("there is a result of no call")
	}
	if !r.Answered("c") || r.Answered("a") {
		t.Error("the call to answer is c")
	}
	r.Messages = r.Messages[:6]
	if got := r.Turn(); got != 2 || r.Prompt() != "first" || r.Answered("a") {
		t.Errorf("before: turn %d, prompt %q", got, r.Prompt())
	}
	if empty := (messagesapi.Request{}); empty.Turn() != 0 || empty.Prompt() != "" || empty.Answered("a") {
		t.Error("an empty conversation has a turn")
	}
}

func TestScripts(t *testing.T) {
	first := parse(t, `{"messages":[{"role":"user","content":"p"}]}`)
	later := parse(t, `{"messages":[{"role":"user","content":"p"},{"role":"assistant","content":"x"},{"role":"user","content":"(no content)"}]}`)
	first.N, later.N = 5, 2
	turns := messagesapi.Turns(messagesapi.Text("one"), messagesapi.Text("two"))
	order := messagesapi.InOrder(messagesapi.Text("one"), messagesapi.Text("two"), messagesapi.Text("three"))
	for name, tc := range map[string]struct {
		answer messagesapi.Answer
		want   string
	}{
		"first turn":           {turns(first), "one"},
		"second turn":          {turns(later), "two"},
		"the last is repeated": {order(first), "three"},
		"second request":       {order(later), "two"},
	} {
		if got := tc.answer.Content[0].Text; got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
