package daemon

import (
	"testing"

	"golang.org/x/sys/unix"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

func TestTheSupervisorsEnvironmentIsHidden(t *testing.T) {
	must(t, hideEnvironment(t.Context()))
	if on, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || on != 0 {
		t.Errorf("got %d, %v", on, err)
	}
}

func TestWhoGetsTokensInsteadOfKeys(t *testing.T) {
	for setting, want := range map[config.KeyProxy][2]bool{ // without and with a shell gate
		config.KeyProxyAuto: {true, false}, config.KeyProxyOn: {true, true}, config.KeyProxyOff: {false, false},
	} {
		h := newHost(Options{Config: &config.Config{Agent: config.Agent{KeyProxy: setting}}}, nil)
		for i, gated := range []bool{false, true} {
			hides := h.hidesKeys(gated)
			if got := hides != nil && hides("default", ops.Tier1); got != want[i] {
				t.Errorf("%s, gated %v: %v", setting, gated, got)
			}
		}
	}
}
