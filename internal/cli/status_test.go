package cli

import (
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func TestProgress(t *testing.T) {
	var p progress
	for i, line := range []string{
		`{"type":"system","subtype":"init"}`,
		`{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"hm"}]}}`,
		`{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Read","input":{"file_path":"/x"}}]}}`,
		`{"type":"assistant","message":{"id":"m2","content":[{"type":"tool_use","name":"Bash","input":{"command":"docker ps"}}]}}`,
		`not json`,
	} {
		p = p.read(api.Line{Seq: int64(i + 1), Line: line})
	}
	if p.turns != 2 || p.tool != "Bash docker ps" || p.after != 5 {
		t.Errorf("got %+v", p)
	}
}

func TestMoneyAndTimes(t *testing.T) {
	for got, want := range map[string]string{
		ops.Dollars(nil): "unknown", ops.Dollars(ops.Ptr(0.0)): "$0.00", ops.Dollars(ops.Ptr(0.0012)): "$0.0012", ops.Dollars(ops.Ptr(1.5)): "$1.50",
		span(nil): "unknown", span(ops.Ptr(int64(450))): "450ms", span(ops.Ptr(int64(4500))): "4.5s", span(ops.Ptr(int64(125_000))): "2m5s",
		turns(nil): "unknown", turns(ops.Ptr(int64(1))): "1 turn", turns(ops.Ptr(int64(2))): "2 turns",
		clean("a\x1b[31mb\u202e\u202c\u200bc\n"): "a [31mb   c ", string(escapeUnseen([]byte("\"a\u202c\U000E0041\""))): `"a\u202c\udb40\udc41"`, shorten("abcdef", 4): "abc…",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestATotalOfUnknownsIsUnknown(t *testing.T) {
	if got := totalOf([]api.Session{{}, {}}); got.cost != nil || got.turns != nil {
		t.Errorf("got %+v", got)
	}
	one := api.Session{CostUSD: ops.Ptr(0.5)}
	if got := totalOf([]api.Session{one, {}, one}); got.cost == nil || *got.cost != 1 {
		t.Errorf("got %+v", got)
	}
}
