package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"claudeops/test/testtoken"
)

// hops measures from the end of one tier's process to the first line of the next one's.
func (b *bench) hops(chains, processes int) ([]figure, error) {
	before, hops, err := b.hopsOnce("hops", chains)
	if err != nil {
		return nil, err
	}
	cold, err := b.cold()
	if err != nil {
		return nil, err
	}
	agent, err := b.agent(result + "\n")
	if err != nil {
		return nil, err
	}
	after, err := b.floor(agent)
	if err != nil {
		return nil, err
	}
	floor := (before + after) / 2
	warm, first := hops[len(hops)/2], cold[len(cold)/2]
	out := []figure{
		{
			"floor: two durable writes and the start of the agent",
			fmt.Sprintf("%.1f ms before, %.1f ms after the hops (medians of %d)", before, after, floorRounds), "",
		},
		{
			fmt.Sprintf("hop from the end of tier N to the start of tier N+1, after %v of work", workTime),
			fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d hops), %.1f × the floor", warm, hops[len(hops)*99/100], len(hops), warm/floor), "≤ 2 × the floor",
		},
		{"first hop of a new daemon", fmt.Sprintf("p50 %.1f ms (%d daemons), %.1f × the floor", first, len(cold), first/floor), "≤ 3 × the floor"},
	}
	if processes <= 0 {
		return out, nil
	}
	stop, err := manyProcesses(processes)
	if err != nil {
		return nil, err
	}
	defer stop()
	floor, hops, err = b.hopsOnce("busy-hops", chains)
	if err != nil {
		return nil, err
	}
	busy := hops[len(hops)/2]
	return append(out, figure{
		fmt.Sprintf("hop with %d more processes on the machine", processes),
		fmt.Sprintf("p50 %.1f ms (%d hops), %.1f × the floor of %.1f ms, %.2f × the hop without them", busy, len(hops), busy/floor, floor, busy/warm),
		"the same",
	}), nil
}

// hopsOnce measures the floor and then the hops of a new daemon.
func (b *bench) hopsOnce(state string, chains int, env ...string) (floor float64, hops []float64, err error) {
	times := filepath.Join(b.dir, state+"-times")
	agent, err := b.agent(hoppingAfter(times, workTime))
	if err != nil {
		return 0, nil, err
	}
	if floor, err = b.floor(agent); err != nil {
		return 0, nil, err
	}
	if err := b.chains(agent, times, state, chains, env...); err != nil {
		return 0, nil, err
	}
	raw, err := os.ReadFile(times)
	if err != nil {
		return 0, nil, err
	}
	hops, _, err = readHops(string(raw))
	return floor, hops, err
}

// chains lets a daemon run so many cycles, one after the other.
func (b *bench) chains(agent, times, state string, count int, env ...string) error {
	d, err := b.start(agent, filepath.Join(b.dir, state), env...)
	if err != nil {
		return err
	}
	defer d.stop()
	// A daemon without history starts one by itself.
	for done := range count {
		for {
			raw, err := os.ReadFile(times)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if bytes.Count(raw, []byte("end 3 ")) > done {
				break
			}
			if time.Since(d.begun) > 2*time.Minute {
				return errors.New("the chains do not end")
			}
			<-time.After(2 * time.Millisecond)
		}
		client := &http.Client{Transport: testtoken.Transport{}}
		r, err := client.Post("http://"+d.addr+"/api/v1/cycles", "application/json", strings.NewReader("{}")) //nolint:noctx // loopback
		if err != nil {
			return err
		}
		if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusAccepted {
			return fmt.Errorf("submit cycle: %s %w", r.Status, err)
		}
	}
	return nil
}
