package daemon

import (
	"testing"

	"golang.org/x/sys/unix"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

func TestTheSupervisorsEnvironmentIsHidden(t *testing.T) {
	if err := hideEnvironment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if on, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || on != 0 {
		t.Errorf("got %d, %v", on, err)
	}
}

func TestWhoGetsTokensInsteadOfKeys(t *testing.T) {
	for setting, want := range map[config.KeyProxy]bool{config.KeyProxyAuto: true, config.KeyProxyOn: true, config.KeyProxyOff: false} {
		h := newHost(Options{Config: &config.Config{Agent: config.Agent{KeyProxy: setting}}}, nil)
		hides := h.hidesKeys()
		if got := hides != nil && hides("default", ops.Tier1); got != want {
			t.Errorf("%s: %v", setting, got)
		}
	}
}
