package survey

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// unitTime is how long systemctl may take.
const unitTime = 5 * time.Second

// Unit is a service unit of systemd that runs or has failed.
type Unit struct {
	Name   string
	Failed bool
}

// Units asks systemctl, the path of a program, for the units of this machine. Those of the operating system itself are left out.
func Units(ctx context.Context, systemctl string) ([]Unit, error) {
	ctx, cancel := context.WithTimeout(ctx, unitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, systemctl, "list-units", "--type=service", "--state=running,failed", "--plain", "--full", "--no-legend",
		"--no-pager")
	cmd.Env, cmd.WaitDelay = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}, time.Second
	text, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) && len(failed.Stderr) > 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(string(failed.Stderr)), "\n")
			return nil, fmt.Errorf("list units: %s", first)
		}
		return nil, fmt.Errorf("list units: %w", err)
	}
	var out []Unit
	for line := range strings.Lines(string(text)) {
		// UNIT LOAD ACTIVE SUB DESCRIPTION
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasSuffix(words[0], ".service") || ofTheSystem(words[0]) {
			continue
		}
		out = append(out, Unit{Name: words[0], Failed: words[2] == "failed"})
	}
	return out, nil
}

// ofTheSystem reports whether a unit is a part of the operating system that nobody watches by itself.
func ofTheSystem(unit string) bool {
	name := strings.TrimSuffix(unit, ".service")
	for _, prefix := range []string{
		"systemd-", "getty@", "serial-getty@", "user@", "user-runtime-dir@", "dbus", "modprobe@", "plymouth", "snapd",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"accounts-daemon", "avahi-daemon", "bluetooth", "claudeops", "console-setup", "containerd", "cron", "crond", "colord", "docker",
		"fwupd", "ifupdown", "irqbalance", "ModemManager", "multipathd", "networkd-dispatcher", "NetworkManager", "packagekit", "polkit",
		"polkitd", "power-profiles-daemon", "rtkit-daemon", "rsyslog", "thermald", "udisks2", "unattended-upgrades", "upower",
		"wpa_supplicant",
	}, name)
}
