package claude

import "testing"

func TestAnEventIsReadAsFarAsItsFieldsHaveTheExpectedType(t *testing.T) {
	e, ok := parseEvent(`{"session_id":7,"type":"a\u00fcb","error":{},"attempt":"1","message":{"id":[],"content":[5,[],null,` +
		`{"type":"tool_use","is_error":"true","input": {"command":"a \"b\" {"} ,"id":"t"},{"type":"text","text":"four"}],` +
		`"usage":{"input_tokens":1e3,"output_tokens":null,"cache_read_input_tokens":"x"}},"model":"m"}`)
	tools := e.Message.tools()
	if !ok || e.Kind != "a\u00fcb" || e.Model != "m" || e.SessionID != "" || whole(e.Attempt) != nil || e.Message.Usage.tokens() != 1000 || len(tools) != 1 {
		t.Fatalf("got %+v, %v", e, ok)
	}
	if b := tools[0]; b.ID != "t" || b.IsError || string(b.Input) != `{"command":"a \"b\" {"}` || e.Message.written() != int64(len(b.Input)+len(`"four"`)) {
		t.Errorf("got %+v, %d bytes written", b, e.Message.written())
	}
	for _, text := range []string{"", "x", "{", `{"a":1`, `{"a":[1}`, `{"a":1}x`, `{"message":{"content":[{]}}`} {
		if _, ok := parseEvent(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}
