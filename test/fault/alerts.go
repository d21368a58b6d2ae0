package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // to take the lock that another process would take

	"claudeops/internal/store"
	"claudeops/test/testtoken"
)

// alertRate sends alerts at a steady rate, kills the program right after the last, and looks whether each that was accepted is on record.
func (t *trying) alertRate(ctx context.Context, perSecond int, length time.Duration) error {
	const each = 20
	b := t.box(ctx, setup{ladder: true})
	p := t.start(ctx, b, modeServe)
	check(p.until("the first chain has ended", func() bool { return b.quiet(ctx) }))
	before, pid := b.count(ctx), p.cmd.Process.Pid
	var mu sync.Mutex
	var senders sync.WaitGroup
	var took []time.Duration
	var strange error
	accepted, busy := map[string]bool{}, 0
	tick := time.NewTicker(time.Second * each / time.Duration(perSecond))
	defer tick.Stop()
	begun := time.Now()
	for from := 0; from < int(length.Seconds())*perSecond; from += each {
		<-tick.C
		senders.Go(func() {
			asked := time.Now()
			code, said := p.post("/api/v1/webhooks/generic", alertBody(from, each))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(asked))
			switch code {
			case http.StatusAccepted:
				for i := range each {
					accepted[fmt.Sprintf("service-%05d", from+i)] = true
				}
			case http.StatusTooManyRequests, http.StatusServiceUnavailable:
				busy++
			default:
				strange = fmt.Errorf("alerts answer %d: %.300s", code, said)
			}
		})
	}
	senders.Wait()
	sent, memory := time.Since(begun), status(pid, "VmHWM:")
	p.signal(syscall.SIGKILL)
	check(errors.Join(strange, p.wait()))
	count := len(accepted)
	check(b.forgetRecorded(ctx, accepted))
	p = t.start(ctx, b, modeServe)
	check(p.until("a cycle was started and has ended", func() bool { return b.count(ctx) > before && b.settled(ctx) }))
	check(p.hold(ctx, b, 35*time.Second))
	started := b.count(ctx) - before
	t.found = fmt.Sprintf("%d alerts accepted in %s, %d messages refused as too many, answers %s; %s at most; %d lost by the kill; %d cycles",
		count, sent.Round(100*time.Millisecond), busy, spread(took), memory, len(accepted), started)
	if len(accepted) > 0 || count < perSecond || started < 1 || started > 2+int(sent/(30*time.Second)) {
		return errors.New(t.found)
	}
	return errors.Join(p.stop(), errors.Join(b.leftovers(ctx, must(b.cycles(ctx)))...))
}

// forgetRecorded takes those out of a set of services that have an alert on record.
func (b *box) forgetRecorded(ctx context.Context, services map[string]bool) error {
	s, err := b.database.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	for before := int64(0); ; {
		page, err := s.Watch.Alerts(ctx, store.AlertFilter{Before: before, Limit: 500})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, a := range page {
			delete(services, a.Service)
		}
		before = page[len(page)-1].ID
	}
}

func alertBody(from, count int) string {
	type one struct {
		Name    string `json:"name"`
		Service string `json:"service"`
		Status  string `json:"status"`
		Level   string `json:"severity"`
	}
	var all []one
	for i := from; i < from+count; i++ {
		all = append(all, one{"Down", fmt.Sprintf("service-%05d", i), "firing", "critical"})
	}
	raw, err := json.Marshal(struct {
		Alerts []one `json:"alerts"`
	}{all})
	if err != nil {
		panic(err) // texts always encode
	}
	return string(raw)
}

// post sends a body to a serving program.
func (p *process) post(path, body string) (int, string) {
	client := &http.Client{Timeout: 60 * time.Second, Transport: testtoken.Transport{}}
	resp, err := client.Post("http://"+p.addr+path, "application/json", strings.NewReader(body)) //nolint:noctx // it has a time-out
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// slowChain is the chain with a Tier 2 that takes its time before it does anything.
func slowChain(pause time.Duration) string {
	return replaceOnce(chain, "      - bash: 'webctl restart'\n", fmt.Sprintf("      - pause: %s\n      - bash: 'webctl restart'\n", pause))
}

// hold waits for so long, and until every cycle has ended.
func (p *process) hold(ctx context.Context, b *box, d time.Duration) error {
	<-time.After(d)
	return p.until("every cycle has ended", func() bool { return b.settled(ctx) })
}
