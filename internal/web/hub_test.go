package web_test

import (
	"testing"

	"claudeops/internal/web"
)

func TestANudgeNeverWaitsAndIsNeverLost(t *testing.T) {
	h := web.NewHub()
	slow, endSlow := h.Subscribe()
	quick, endQuick := h.Subscribe()
	for range 1000 {
		h.Nudge()
	}
	<-slow
	<-quick
	select {
	case <-quick:
		t.Error("a thousand nudges are more than one")
	default:
	}
	endQuick()
	h.Nudge()
	<-slow
	select {
	case <-quick:
		t.Error("nudged after the end")
	default:
	}
	endSlow()
}
