package cycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"claudeops/internal/ops"
)

// cooldownSnapshot tells the agent what is left of each action; the truth stays in the database.
func cooldownSnapshot(d *draft) error {
	cooldowns := d.now.Journal.Cooldowns
	if cooldowns == nil {
		cooldowns = []ops.Cooldown{}
	}
	raw, err := json.MarshalIndent(map[string]any{
		"limits":    cooldownLimits(d.now.Cycle.Policy.Cooldowns),
		"cooldowns": cooldowns,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cooldown snapshot: %w", err)
	}
	path := filepath.Join(d.spec.StateDir, "cooldown.json")
	if err := replaceFile(path, raw); err != nil {
		return fmt.Errorf("write cooldown snapshot: %w", err)
	}
	return nil
}

// cooldownLimits says in words how often what may be done to a service.
func cooldownLimits(limits []ops.CooldownLimit) map[string]string {
	if len(limits) == 0 { // nobody counts, and the rule stands all the same
		return map[string]string{"restart": "2 per service in 4 h", "redeployment": "1 per service in 24 h"}
	}
	out := map[string]string{}
	for _, l := range limits {
		name := l.Action
		if l.Service != "" {
			name += " of " + l.Service
		}
		out[name] = fmt.Sprintf("%d per service in %s", l.Count, l.Window)
	}
	return out
}

// replaceFile swaps the file in one step, so that no reader sees half of it and no link planted there is followed.
func replaceFile(path string, raw []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
