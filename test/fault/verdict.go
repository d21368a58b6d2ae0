package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/act"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// verdict looks at a box in which everything has come to its end and names what must not be.
func (b *box) verdict(ctx context.Context, ladder bool) error {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return err
	}
	if len(cycles) == 0 {
		return errors.New("there is no cycle")
	}
	var errs []error
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, c := range cycles {
		if c.ID != ops.CycleID(i+1) {
			say("cycle %d is lost", i+1)
			break
		}
		errs = append(errs, checkCycle(c, ladder, b.refusals, b.spentInVain(c))...)
	}
	errs = append(append(errs, b.checkActions(cycles, ladder)...), b.checkPeople(ctx, cycles), b.checkRuns(ctx))
	errs = append(errs, b.leftovers(ctx, cycles)...)
	last := cycles[len(cycles)-1].Status
	if !b.service.well() && last != ops.CycleFailed && last != ops.CyclePartial {
		say("the service is down although the last cycle is %s", last)
	}
	return errors.Join(errs...)
}

// leftovers names what must not be there after anything: processes, control groups, a handoff, damage.
func (b *box) leftovers(ctx context.Context, cycles []store.CycleSummary) (errs []error) {
	if left := b.orphans(); len(left) > 0 {
		errs = append(errs, fmt.Errorf("processes are left: %s", strings.Join(left, ", ")))
	}
	if left := groups(cycles); len(left) > 0 {
		errs = append(errs, fmt.Errorf("control groups are left: %s", strings.Join(left, ", ")))
	}
	if _, err := os.Lstat(filepath.Join(b.state, "handoff.json")); err == nil {
		errs = append(errs, errors.New("handoff.json is left"))
	}
	return append(errs, b.database.check(ctx))
}

// checkCycle looks at one cycle: at its end, no session open, no tier finished twice. Where calls were refused meanwhile, a session
// that came to nothing counts like one that was interrupted.
func checkCycle(c store.CycleSummary, ladder, refusals, spent bool) (errs []error) {
	say := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	finished := map[ops.Tier]int{}
	interrupted := map[ops.Tier]int{}
	for _, s := range c.Sessions {
		if !s.Status.Ended() {
			say("session %d is still %s", s.ID, s.Status)
		}
		vain := s.Outcome == ops.OutcomeInconclusive
		if s.Status == ops.SessionCompleted && s.Works() && !vain {
			finished[s.Tier]++
		}
		if s.Status == ops.SessionInterrupted || (vain && refusals) {
			interrupted[s.Tier]++
		}
	}
	for tier, times := range finished {
		if times > 1 {
			say("%s finished %d times in cycle %d", tier, times, c.ID)
		}
	}
	switch c.Status {
	case ops.CycleResolved, ops.CycleHealthy:
	case ops.CycleFailed:
		// Without the ladder a repair in flight is not repeated, and a human hears of it.
		if ladder || len(interrupted) == 0 {
			say("cycle %d ended %s: %s", c.ID, c.Status, c.Reason)
		}
	case ops.CyclePartial:
		// The ladder orders another attempt at a repair that was interrupted, but not a third one: a human has it then.
		// So it is when the only redeployment of the day was let through and the kill came before it was done.
		if !ladder || (max(interrupted[ops.Tier2], interrupted[ops.Tier3]) < 2 && !spent) {
			say("cycle %d ended %s: %s", c.ID, c.Status, c.Reason)
		}
	default:
		say("cycle %d ended %s: %s", c.ID, c.Status, c.Reason)
	}
	return errs
}

// spentInVain: Tier 3 was interrupted, and nothing of what it may have been let do has reached the service. What was let through
// stays counted, because nobody can know.
func (b *box) spentInVain(c store.CycleSummary) bool {
	for _, s := range c.Sessions {
		if s.Tier != ops.Tier3 || s.Status != ops.SessionInterrupted {
			continue
		}
		if !slices.ContainsFunc(b.service.done(), func(a action) bool { return a.key == s.Key && a.verb == "redeploy" }) {
			return true
		}
	}
	return false
}

// checkPeople: a cycle that gave up belongs to an incident for which a human was called, by this cycle or an earlier one.
func (b *box) checkPeople(ctx context.Context, cycles []store.CycleSummary) error {
	s, err := b.database.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	incidents, err := s.People.Incidents(ctx, store.IncidentFilter{Limit: 100})
	if err != nil {
		return fmt.Errorf("read incidents: %w", err)
	}
	notified := map[ops.CycleID]bool{}
	for _, i := range incidents {
		story, err := s.Reports.IncidentStory(ctx, i.ID)
		if err != nil {
			return fmt.Errorf("read incident %d: %w", i.ID, err)
		}
		for _, c := range story.Cycles {
			notified[c.Cycle.ID] = notified[c.Cycle.ID] || i.CalledAt != nil
		}
	}
	for _, c := range cycles {
		gaveUp := c.Status == ops.CycleFailed && len(c.Sessions) > 1 || c.Status == ops.CyclePartial
		if gaveUp && !notified[c.ID] {
			return fmt.Errorf("cycle %d gave up and no human was told", c.ID)
		}
	}
	return nil
}

// checkActions: what was done to the service was done once, unless a session that was interrupted is followed by another
// that knows of it; and never to a service that was well.
func (b *box) checkActions(cycles []store.CycleSummary, ladder bool) (errs []error) {
	tiers := map[string]ops.Tier{"restart": ops.Tier2, "redeploy": ops.Tier3}
	byCycle, byKey := map[string]int{}, map[string]int{}
	for _, a := range b.service.done() {
		byCycle[a.verb+" "+a.cycle]++
		byKey[a.verb+" "+a.key]++
		if a.late {
			errs = append(errs, fmt.Errorf("%s of a service that was well, by session %s", a.verb, a.key))
		}
	}
	for name, times := range byKey {
		if times > 1 {
			errs = append(errs, fmt.Errorf("one session did it %d times: %s", times, name))
		}
	}
	for _, c := range cycles {
		for verb, tier := range tiers {
			most := 1
			for _, s := range c.Sessions {
				if ladder && s.Tier == tier && s.Status == ops.SessionInterrupted {
					most++
				}
			}
			if times := byCycle[fmt.Sprintf("%s %d", verb, c.ID)]; times > most {
				errs = append(errs, fmt.Errorf("%d × %s in cycle %d, at most %d can be told apart", times, verb, c.ID, most))
			}
		}
	}
	return errs
}

// checkRuns: every run of an action has ended, one that is done reached the service once, and none did so twice.
func (b *box) checkRuns(ctx context.Context) error {
	if !b.actions {
		return nil
	}
	s, err := b.database.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	runs, err := s.Acts.ActionRuns(ctx, store.ActionFilter{})
	if err != nil {
		return fmt.Errorf("read actions: %w", err)
	}
	reached := map[string]int{}
	for _, a := range b.service.done() {
		reached[a.key]++
	}
	var errs []error
	for _, r := range runs {
		times := reached[act.Key(r)]
		if !r.Status.Ended() || times > 1 || r.Status == ops.ActionDone && times != 1 || r.Status == ops.ActionRefused && times != 0 {
			errs = append(errs, fmt.Errorf("action %d is %s and reached the service %d times", r.ID, r.Status, times))
		}
	}
	return errors.Join(errs...)
}

// orphans lists the living processes of sessions of the box.
func (b *box) orphans() []string {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range entries {
		raw, err := os.ReadFile(e) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(raw, []byte("CLAUDEOPS_SESSION_KEY=")) || !bytes.Contains(raw, []byte("FAULT_DIR="+b.dir+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline")) //nolint:gosec // of /proc
		out = append(out, fmt.Sprintf("%s %s", filepath.Base(filepath.Dir(e)), strings.ReplaceAll(string(line), "\x00", " ")))
	}
	return out
}

// groups lists the control groups of sessions that still exist.
func groups(cycles []store.CycleSummary) []string {
	var out []string
	for _, c := range cycles {
		for _, s := range c.Sessions {
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				if found, err := filepath.Glob(filepath.Join(root, "claudeops-"+s.Key)); err == nil {
					out = append(out, found...)
				}
			}
		}
	}
	return out
}

// replaceOnce replaces a text that must be there.
func replaceOnce(text, old, with string) string {
	if strings.Count(text, old) != 1 {
		panic(fmt.Sprintf("%q stands %d times in the scenario", old, strings.Count(text, old)))
	}
	return strings.Replace(text, old, with, 1)
}

// running reports whether a session of the tier is running.
func (b *box) running(ctx context.Context, tier ops.Tier) bool {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return false
	}
	for _, c := range cycles {
		for _, s := range c.Sessions {
			if s.Tier == tier && s.Status == ops.SessionRunning && s.PID != 0 {
				return true
			}
		}
	}
	return false
}

// summary says how the cycles and sessions ended.
func (b *box) summary(ctx context.Context) string {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, c := range cycles {
		var sessions []string
		for _, s := range c.Sessions {
			word := fmt.Sprintf("%s %s", s.Tier, s.Status)
			if s.Failure != "" {
				word += " (" + string(s.Failure) + ")"
			}
			sessions = append(sessions, word)
		}
		out = append(out, fmt.Sprintf("cycle %d %s: %s", c.ID, c.Status, strings.Join(sessions, ", ")))
	}
	return strings.Join(out, "; ")
}

// agents lists the processes of the box that are agents of the tier.
func (b *box) agents(tier ops.Tier) (pids []int) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		raw, err := os.ReadFile(e) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(raw, []byte("FAULT_DIR="+b.dir+"\x00")) || !bytes.Contains(raw, fmt.Appendf(nil, "CLAUDEOPS_TIER=%d\x00", tier)) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(e), "cmdline")) //nolint:gosec // of /proc
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e))); err == nil && bytes.Contains(line, []byte("\x00scripted\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// files lists the open files of a process.
func files(pid int) (out []string) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())); err == nil {
			out = append(out, to)
		}
	}
	slices.Sort(out)
	return out
}
