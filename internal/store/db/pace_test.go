package db

import (
	"testing"
	"time"
)

func TestBatchesFollowTheTimeThatTheyTake(t *testing.T) {
	var p Pace
	if got := p.Of(250); got != 250 {
		t.Errorf("the first batch has %d rows, want 250", got)
	}
	p.Took(time.Second)
	if got := p.Of(250); got != 125 {
		t.Errorf("after a slow batch: %d rows, want 125", got)
	}
	for range 20 {
		p.Took(time.Second)
	}
	if got := p.Of(250); got != 25 {
		t.Errorf("after many slow batches: %d rows, want 25", got)
	}
	if got := p.Of(8); got != 1 {
		t.Errorf("a batch must not be empty: %d rows", got)
	}
	p.Took(paceTarget * 3 / 4)
	if got := p.Of(250); got != 25 {
		t.Errorf("a batch of the right length changed the size: %d rows", got)
	}
	for range 100 {
		p.Took(time.Microsecond)
	}
	if got := p.Of(250); got != 250 {
		t.Errorf("after quick batches: %d rows, want 250", got)
	}
}
