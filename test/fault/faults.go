package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// faults are the ones other than a kill, each with its own file.
func faults(o options) []trial {
	var out []trial
	add := func(group, name string, run func(ctx context.Context, t *trying) error) {
		out = append(out, trial{group: group, name: group + name, alone: true, run: run})
	}
	for _, ladder := range []bool{true, false} {
		name := fmt.Sprintf("#ladder=%t", ladder)
		add("locked", name, func(ctx context.Context, t *trying) error { return t.locked(ctx, ladder, 30*time.Second) })
		add("disk", name, func(ctx context.Context, t *trying) error { return t.diskFull(ctx, ladder) })
		add("memory", name, func(ctx context.Context, t *trying) error { return t.outOfMemory(ctx, ladder) })
	}
	for _, ladder := range []bool{true, false} {
		add("readonly", fmt.Sprintf("#ladder=%t", ladder), func(ctx context.Context, t *trying) error { return t.readOnly(ctx, ladder) })
	}
	add("endless", "#lines", func(ctx context.Context, t *trying) error { return t.endlessOutput(ctx, endlessLines) })
	add("endless", "#line", func(ctx context.Context, t *trying) error { return t.endlessOutput(ctx, endlessLine) })
	add("load", "", func(ctx context.Context, t *trying) error { return t.underLoad(ctx, 40*time.Second) })
	add("readers", "", func(ctx context.Context, t *trying) error { return t.slowReaders(ctx, 40) })
	add("answers", "#expired", func(ctx context.Context, t *trying) error { return t.expiredAnswer(ctx) })
	add("answers", "#changed", func(ctx context.Context, t *trying) error { return t.changedPlan(ctx) })
	add("tls", "", func(ctx context.Context, t *trying) error { return t.otherCertificate(ctx) })
	add("versions", "", func(ctx context.Context, t *trying) error { return t.mixedVersions(ctx, o.older) })
	add("clock", "#steps", func(ctx context.Context, t *trying) error { return t.clockSteps(ctx, nil) })
	add("clock", "#steps-postgres", func(ctx context.Context, t *trying) error {
		d, err := newServer(ctx)
		if err != nil {
			return err
		}
		return t.clockSteps(ctx, d)
	})
	for _, by := range []time.Duration{year, -year} {
		add("clock", fmt.Sprintf("#%s", by), func(ctx context.Context, t *trying) error { return t.clockJump(ctx, by) })
	}
	for i := range 20 {
		add("corrupt", fmt.Sprintf("#%d", i), func(ctx context.Context, t *trying) error {
			return t.corrupt(ctx, rand.New(rand.NewPCG(t.seed, uint64(i)))) //nolint:gosec // it chooses bits
		})
	}
	for i := range 3 {
		add("postgres", fmt.Sprintf("#%d", i), func(ctx context.Context, t *trying) error { return t.serverAway(ctx, time.Minute) })
	}
	for _, replace := range []bool{false, true} {
		add("deleted", fmt.Sprintf("#replaced=%t", replace), func(ctx context.Context, t *trying) error { return t.deletedFile(ctx, replace) })
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		add("skew", fmt.Sprintf("#%s", by), func(ctx context.Context, t *trying) error { return t.skewedHost(ctx, by) })
	}
	add("disk", "#limits", func(ctx context.Context, t *trying) error { return t.limitsOnFullDisk(ctx) })
	add("output", "", func(ctx context.Context, t *trying) error { return t.outputCap(ctx) })
	add("alerts", "", func(ctx context.Context, t *trying) error { return t.alertStorm(ctx, 40_000) })
	for i := range 3 {
		name := func(fault string) string { return fmt.Sprintf("#%s=%d", fault, i) }
		add("keeper", name("kill"), func(ctx context.Context, t *trying) error { return t.killSupervisor(ctx) })
		add("keeper", name("hosts-kill"), func(ctx context.Context, t *trying) error { return t.oldHost(ctx, syscall.SIGKILL) })
		add("keeper", name("hosts-stop"), func(ctx context.Context, t *trying) error { return t.oldHost(ctx, syscall.SIGSTOP) })
	}
	add("keeper", "#stop", func(ctx context.Context, t *trying) error { return t.stopSupervisor(ctx) })
	add("keeper", "#keeper-stop", func(ctx context.Context, t *trying) error { return t.stopKeeper(ctx) })
	add("keeper", "#keeper-kill", func(ctx context.Context, t *trying) error { return t.killKeeper(ctx) })
	add("descriptors", "", func(ctx context.Context, t *trying) error { return t.descriptors(ctx, 256, 1000) })
	add("storm", "", func(ctx context.Context, t *trying) error { return t.forkStorm(ctx, 500) })
	add("grandchildren", "", func(ctx context.Context, t *trying) error { return t.grandchildren(ctx, o.sessions) })
	return out
}

// faultNames lists them for the command line.
func faultNames() (out []string) {
	for _, t := range faults(options{}) {
		if !slices.Contains(out, t.group) {
			out = append(out, t.group)
		}
	}
	return out
}
