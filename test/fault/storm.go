package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

// stormRule lets agents start as many children as they like.
const stormRule = `  - {id: web-storm, program: webctl, args: [storm, "*"], tier: 1, reason: It is what is tried.,
     match: [webctl storm 5], not_match: [webctl get]}
`

// stormy is a session that leaves so many processes behind, each in a POSIX session of its own, and says that all is well.
func stormy(children int) string {
	return fmt.Sprintf(`name: storm
tiers:
  1:
    cost_usd: 0.01
    steps: [{when: {bash: 'webctl storm %d', exit: 0}, else: [{finish: {is_error: true}}]}]
    outcome: {schema_version: 1, outcome: healthy, summary: all is well, check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}
    result: All is well.
`, children)
}

// storm starts children that outlive everybody who does not hunt them: half of them ignore every polite signal, each holds
// the output of the agent open.
func storm(word string) int {
	count, err := strconv.Atoi(word)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	for i := range count {
		script := "exec sleep 600"
		if i%2 == 1 {
			script = "trap '' INT TERM HUP; sleep 600; sleep 600"
		}
		c := exec.Command("/bin/sh", "-c", script) //nolint:gosec,noctx // it is to outlive us
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// forkStorm is one session with very many children.
func (t *trying) forkStorm(ctx context.Context, children int) error {
	b := t.box(ctx, setup{scenario: stormy(children), more: "observe: agent\n"})
	b.service.set(true)
	took := must(b.runToEnd(ctx, modeOnce))
	cycles := must(b.cycles(ctx))
	if s := cycles[0].Sessions[0]; s.Status != ops.SessionCompleted {
		return fmt.Errorf("the session is %s: %s", s.Status, s.Error)
	}
	t.recovery = took
	t.found = fmt.Sprintf("%d children, half of them deaf, are gone; the whole run took %s", children, took.Round(10*time.Millisecond))
	return errors.Join(b.leftovers(ctx, cycles)...)
}
