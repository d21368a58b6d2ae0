package web

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestAHostsStatusIsAWord(t *testing.T) {
	soon := time.Now()
	for want, h := range map[string]ops.Host{
		"Alive":          {Alive: true, ExpiresAt: &soon},
		"Draining":       {Alive: true, Draining: true, ExpiresAt: &soon},
		"Not responding": {ExpiresAt: &soon},
		"Stopped":        {Draining: true},
	} {
		if got := hostBadge(h); got.Word != want || got.Icon == "" {
			t.Errorf("%+v is shown as %+v", h, got)
		}
	}
}
