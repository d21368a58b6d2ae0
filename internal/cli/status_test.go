package cli

import (
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

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
