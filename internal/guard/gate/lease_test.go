package gate

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/guard"
	"claudeops/internal/guard/client"
	"claudeops/internal/ops"
)

// looksOnly says that Tier 1 does nothing that writes.
func looksOnly(tier ops.Tier, tool string, input json.RawMessage, facts guard.Facts) guard.Decision {
	d := plainJudge(tier, tool, input, facts)
	if d.From = ops.Tier1; strings.Contains(string(input), "write") {
		d.From = ops.Tier2
	}
	return d
}

func TestWhatOnlyAHigherTierMayDoCountsAsAChange(t *testing.T) {
	f := open(t, func(o *Options, _ *Gate) { o.Judge = judgeFunc(looksOnly) })
	f.hooked("toolu_1", "look at it")
	f.hooked("toolu_2", "write to it")
	rows := f.ledger.records()
	if len(rows) != 2 || rows[0].Mutating || !rows[1].Mutating || !rows[1].Allowed {
		t.Errorf("recorded %+v", rows)
	}
}

func TestAHostThatMayNotActStillLooks(t *testing.T) {
	var away atomic.Bool
	f := open(t, func(o *Options, _ *Gate) {
		o.Judge = judgeFunc(looksOnly)
		o.May = func() error {
			if away.Load() {
				return errors.New("this host cannot reach its database")
			}
			return nil
		}
	})
	if a := f.hooked("toolu_1", "write to it"); a.Verdict != client.Allow {
		t.Fatalf("answered %+v", a)
	}
	away.Store(true)
	if a := f.hooked("toolu_2", "write to it"); a.Verdict != client.Deny || !strings.Contains(a.Reason, "cannot reach its database") {
		t.Errorf("answered %+v", a)
	}
	if a := f.hooked("toolu_3", "look at it"); a.Verdict != client.Allow {
		t.Errorf("answered %+v", a)
	}
	if a := f.shelled(wrapped("write to it")); a.Verdict != client.Deny {
		t.Errorf("the shell answered %+v", a)
	}
	rows := f.ledger.records()
	if r := rows[1]; r.Allowed || r.Rule != ruleLease {
		t.Errorf("recorded %+v", r)
	}
}
