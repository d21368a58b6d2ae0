package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestWhatTheGuardProtectsIsTold(t *testing.T) {
	c, _ := mustLoad(t, setup{})
	want := ops.Protected{
		Files:   []string{"inventory.yml", "inventory.yaml", "inventory.ini", "hosts.yml", "hosts.yaml"},
		Volumes: []string{"/var/lib/docker/volumes"},
	}
	if got := c.Environments()[0].Protected; !reflect.DeepEqual(got, want) {
		t.Errorf("protected by default: %+v", got)
	}
	c, _ = mustLoad(t, setup{yaml: "guard: {enabled: false, protected_files: [fleet.yaml, /etc/fleet.d], volumes: [/data/, /tank], hosts: [nas]}\n"})
	env := c.Environments()[0]
	if got := env.Protected; !slices.Equal(got.Files, []string{"fleet.yaml", "/etc/fleet.d"}) || !slices.Equal(got.Hosts, []string{"nas"}) || len(got.Volumes) != 2 {
		t.Errorf("protected: %+v", got)
	}
	for tier, lists := range env.Tools {
		for _, rule := range []string{"Edit(//**/fleet.yaml)", "Edit(//etc/fleet.d)", "Edit(//data/**)", "Edit(//tank/**)", "Bash(rm -rf /tank:*)"} {
			if !slices.Contains(lists.Disallowed, rule) {
				t.Errorf("%s may do what %s forbids", tier, rule)
			}
		}
		if all := strings.Join(lists.Disallowed, " "); strings.Contains(all, "inventory.yml") {
			t.Errorf("%s is held to names that nobody configured", tier)
		}
	}
}

func TestHandlersAreDescribed(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "handlers: [{id: a, tier: 1, description: Looks, good_for: every morning}]\n"})
	if h := c.Environments()[0].Policy.Handlers[0]; h.Description != "Looks" || h.GoodFor != "every morning" {
		t.Errorf("handler is %+v", h)
	}
}
