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
func (b *bench) hops(chains int) ([]figure, error) {
	hops, err := b.hopsOf("hops", chains)
	if err != nil {
		return nil, err
	}
	return []figure{{
		"hop from the end of tier N to the start of tier N+1",
		fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d hops)", hops[len(hops)/2], hops[len(hops)*99/100], len(hops)), "",
	}}, nil
}

// hopsOf measures the hops of a new daemon, in order of length.
func (b *bench) hopsOf(state string, chains int, env ...string) ([]float64, error) {
	times := filepath.Join(b.dir, state+"-times")
	agent, err := b.agent(hopping(times))
	if err != nil {
		return nil, err
	}
	if err := b.chains(agent, times, state, chains, env...); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(times)
	if err != nil {
		return nil, err
	}
	hops, _, err := readHops(string(raw))
	return hops, err
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
