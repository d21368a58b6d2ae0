package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// killTrials kills at every place that fits, so many times each, spread over the courses it is reached on and the times
// it is reached there. Every place has its first turn before any has its second.
func killTrials(all []place, fits *regexp.Regexp, times int) (out []trial) {
	for i := range times {
		for _, p := range all {
			if !fits.MatchString(p.name) {
				continue
			}
			c, nth := p.turn(i)
			out = append(out, trial{
				group: "kill", name: fmt.Sprintf("%s#%d", p.name, i), detail: fmt.Sprintf("%s, the %d. time", c, nth),
				run: func(ctx context.Context, t *trying) error { return t.killAt(ctx, c, p.name, nth) },
			})
		}
	}
	return out
}

// turn says on which course, and at which time there, the place has its i-th turn.
func (p place) turn(i int) (c course, nth int) {
	var on []course
	for _, c := range courses("") {
		if p.times[c] > 0 {
			on = append(on, c)
		}
	}
	c = on[i%len(on)]
	return c, 1 + (i/len(on))%p.times[c]
}

func (t *trying) killAt(ctx context.Context, c course, name string, nth int) error {
	b := t.box(ctx, c.setup(t.program))
	kills := []string{fmt.Sprintf("%s:%d", name, nth)}
	if c.again {
		kills = slices.Insert(kills, 0, c.first())
	}
	for _, k := range kills {
		err := b.runToKill(ctx, c.mode, "CLAUDEOPS_FAILPOINT="+k)
		if errors.Is(err, errMissed) {
			t.missed = true // how often a place is passed is not the same in every run
			continue
		}
		if err != nil {
			return err
		}
	}
	return t.recover(ctx, b, c)
}

// recover starts the program again, waits until all has come to its end, and looks.
func (t *trying) recover(ctx context.Context, b *box, c course) error {
	took := must(b.runToEnd(ctx, c.mode))
	t.recovery = took
	return b.verdict(ctx, c.ladder)
}

// runToEnd runs the program until nothing is left to do, and says how long that took.
func (b *box) runToEnd(ctx context.Context, m mode, env ...string) (time.Duration, error) {
	p, err := b.start(ctx, m, env...)
	if err != nil {
		return 0, err
	}
	if m == modeServe {
		err := p.until("every cycle has ended", func() bool { return b.quiet(ctx) })
		took := time.Since(p.begun)
		if err == nil {
			err = p.ready() // before that it could not stop in good order
		}
		if err != nil {
			p.signal(syscall.SIGKILL)
			return 0, err
		}
		return took, p.stop()
	}
	if err := p.wait(); err != nil {
		return 0, err
	}
	if p.code() != 0 {
		return 0, fmt.Errorf("once exits %d:\n%s", p.code(), p.out.tail())
	}
	return p.ended.Sub(p.begun), nil
}

// randomTrials kill at any moment, and one in four the start after that as well.
func randomTrials(count int, seed uint64, on []course) (out []trial) {
	for i := range count {
		out = append(out, trial{
			group: "random", name: fmt.Sprintf("random#%d", i),
			run: func(ctx context.Context, t *trying) error {
				return t.killAnywhere(ctx, rand.New(rand.NewPCG(seed, uint64(i))), on) //nolint:gosec // it chooses moments
			},
		})
	}
	return out
}

func (t *trying) killAnywhere(ctx context.Context, r *rand.Rand, on []course) error {
	c := on[r.IntN(len(on))]
	b := t.box(ctx, c.setup(t.program))
	starts := 1
	if r.IntN(4) == 0 {
		starts = 2
	}
	for range starts {
		after := time.Duration(r.Float64() * float64(t.typical))
		t.detail = fmt.Sprintf("%s %s, after %s", t.detail, c, after.Round(time.Millisecond))
		killed := must(b.killAfter(ctx, c.mode, after))
		t.missed = t.missed || !killed
	}
	return t.recover(ctx, b, c)
}

// killAfter reports whether the program still ran.
func (b *box) killAfter(ctx context.Context, m mode, after time.Duration) (bool, error) {
	p, err := b.start(ctx, m)
	if err != nil {
		return false, err
	}
	select {
	case <-p.done:
		return false, nil
	case <-time.After(after):
	}
	p.signal(syscall.SIGKILL)
	if err := p.wait(); err != nil {
		return false, err
	}
	return p.killed(), nil
}

// course is a way to run the program on which places are reached.
type course struct {
	mode   mode
	ladder bool
	// again: the program is killed in Tier 2 first, and the places are those of the start after that.
	again bool
	// acts: the agents ask the supervisor for actions instead of working on the service themselves. Again means here that the program
	// is killed after it wrote the intent of the first action.
	acts bool
}

// first is where the first start of a course that starts again is killed.
func (c course) first() string {
	if c.acts {
		return "action.begin.after:1"
	}
	return "spawn.after:2"
}

// setup is the box of the course.
func (c course) setup(program string) setup {
	s := setup{program: program, ladder: c.ladder}
	if c.acts {
		s.scenario, s.actions = actingChain(), true
	}
	return s
}

func (c course) String() string {
	words := []string{string(c.mode)}
	if c.ladder {
		words = append(words, "ladder")
	}
	if c.again {
		words = append(words, "again")
	}
	if c.acts {
		words = append(words, "acts")
	}
	return strings.Join(words, ",")
}

// courses are all of them, or the one of that name.
func courses(only string) (out []course) {
	for _, m := range []mode{modeOnce, modeServe} {
		for _, ladder := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				for _, acts := range []bool{false, true} {
					if c := (course{m, ladder, again, acts}); only == "" || only == c.String() {
						out = append(out, c)
					}
				}
			}
		}
	}
	return out
}

// place is a failpoint, with how often it is reached on each course.
type place struct {
	name  string
	times map[course]int
}

// places runs the program on the courses and lists what it passes, and says how long a start takes.
func places(ctx context.Context, program string, on []course) (out []place, typical time.Duration, err error) {
	byName := map[string]*place{}
	begun, starts := time.Now(), 0
	for _, c := range on {
		names, err := passed(ctx, program, c)
		if err != nil {
			return nil, 0, fmt.Errorf("list places (%s): %w", c, err)
		}
		for _, name := range names {
			if byName[name] == nil {
				byName[name] = &place{name: name, times: map[course]int{}}
			}
			byName[name].times[c]++
		}
		if starts++; c.again {
			starts++
		}
	}
	typical = time.Since(begun) / time.Duration(starts)
	for _, p := range byName {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b place) int { return strings.Compare(a.name, b.name) })
	return out, typical, nil
}

func passed(ctx context.Context, program string, c course) (names []string, err error) {
	b, err := newBox(ctx, c.setup(program))
	if err != nil {
		return nil, err
	}
	defer func() { b.close(err != nil) }()
	if c.again {
		if err := b.runToKill(ctx, c.mode, "CLAUDEOPS_FAILPOINT="+c.first()); err != nil {
			return nil, err
		}
	}
	log := b.file("places")
	if _, err := b.runToEnd(ctx, c.mode, "CLAUDEOPS_FAILPOINT_LOG="+log); err != nil {
		return nil, err
	}
	if err := b.verdict(ctx, c.ladder); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(log) //nolint:gosec // our own
	return strings.Fields(string(raw)), err
}

// errMissed is of a start that came to its end without being killed.
var errMissed = errors.New("the program was not killed")

// runToKill starts the program, which is to be killed by its environment.
func (b *box) runToKill(ctx context.Context, m mode, env ...string) error {
	p, err := b.start(ctx, m, env...)
	if err != nil {
		return err
	}
	if m == modeServe {
		if err := p.until("it was killed", func() bool { return b.quiet(ctx) }); err == nil {
			p.signal(syscall.SIGTERM) // the places on the way out are left
		} else if !errors.Is(err, errEnded) {
			p.signal(syscall.SIGKILL)
			return err
		}
	}
	if err := p.wait(); err != nil {
		return err
	}
	if !p.killed() {
		return fmt.Errorf("%w: exit %d\n%s", errMissed, p.code(), p.out.tail())
	}
	return nil
}

// quiet reports whether every cycle has ended and every notice was sent.
func (b *box) quiet(ctx context.Context) bool {
	if !b.settled(ctx) {
		return false
	}
	s, err := b.database.open(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = s.Close() }() // it was read only
	waiting, err := s.People.PendingNotices(ctx)
	return err == nil && waiting == 0
}
