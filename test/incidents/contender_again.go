package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

const (
	againName  = "again"
	againLimit = 400 * time.Second
	// apart is how long ago one repair was when the same service fails again.
	apart = 5 * time.Hour
	// askedWithin is when people must have been asked: the supervisor looks every ten seconds.
	askedWithin = 15 * time.Second
)

// again is Claude Ops after it has learnt. The same fault came three times before, hours apart, and the model repaired it. A person has
// said yes to whatever became a reflex, and said so only where the supervisor asked.
type again struct{ claudeOps }

func (a *again) limit() time.Duration { return againLimit }

func (a *again) Start(ctx context.Context, p *pair) error {
	clock := filepath.Join(configDir, "clock")
	set := func(ago time.Duration) error { return os.WriteFile(clock, []byte((-ago).String()), 0o600) }
	a.environ = []string{"CLAUDEOPS_FAULT_CLOCK=" + clock}
	if err := os.MkdirAll(configDir, 0o755); err != nil {
		return err
	}
	if err := set(ops.Earnings * apart); err != nil {
		return err
	}
	if err := a.claudeOps.Start(ctx, p); err != nil {
		return err
	}
	for n := range ops.Earnings {
		ago := time.Duration(ops.Earnings-n) * apart
		if err := set(ago); err != nil {
			return err
		}
		p.broken = time.Now().Add(-ago)
		p.speaker.begin(time.Now())
		if err := p.script(ctx, p.fault.Name, "break"); err != nil {
			return err
		}
		if err := a.Wait(ctx, p); err != nil {
			return err
		}
		a.clearCooldowns(ctx, p)
		if p.stays = p.script(ctx, p.fault.Name, "oracle") != nil; p.stays {
			break // there is nothing to learn from it
		}
	}
	if err := set(0); err != nil {
		return err
	}
	return a.promote(ctx)
}

// clearCooldowns lets a person say that enough time has passed. Cooldowns count the time that the machine ran, which no clock changes.
func (a *again) clearCooldowns(ctx context.Context, p *pair) {
	for _, step := range p.fault.repairAt(p.fault.MaxTier) {
		for _, action := range []string{step.Action, "restart", "redeployment"} {
			cmd := p.command(ctx, "claudeops", "cooldowns", "clear", step.Service, action, "--reason", "hours have passed",
				"--config", filepath.Join(configDir, "claudeops.yaml"))
			_ = cmd.Run() // what is not limited cannot be cleared
		}
	}
}

// promote says yes to what the supervisor asks about.
func (a *again) promote(ctx context.Context) error {
	for deadline := time.Now().Add(askedWithin); time.Now().Before(deadline); {
		var asked items[api.EarnedReflex]
		if err := a.get(ctx, "reflexes", &asked); err != nil {
			return err
		}
		if len(asked.Items) == 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pollEvery):
			}
			continue
		}
		for _, r := range asked.Items {
			address := fmt.Sprintf("http://%s/api/v1/reflexes/%d/enable", listenAt, r.ID)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+apiToken)
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
				return fmt.Errorf("switch reflex %d on: %s", r.ID, resp.Status)
			}
		}
		return nil
	}
	return nil
}

// Stop adds what became of the reflexes to the claim.
func (a *again) Stop(p *pair) (Claim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var earned items[api.EarnedReflex]
	err := a.get(ctx, "reflexes", &earned)
	claim, stopErr := a.claudeOps.Stop(p)
	for _, r := range earned.Items {
		claim.Decisions = append(claim.Decisions, fmt.Sprintf("reflex %d of %s is %s: %s", r.ID, r.Service, r.State, strings.Join(r.Do, ", ")))
	}
	return claim, errors.Join(err, stopErr)
}
