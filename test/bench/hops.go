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
	hops := must(b.hopsOf("hops", chains))
	return []figure{{
		"hop from the end of tier N to the start of tier N+1",
		fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d hops)", hops[len(hops)/2], hops[len(hops)*99/100], len(hops)), "",
	}}, nil
}

// hopsOf measures the hops of a new daemon, in order of length.
func (b *bench) hopsOf(state string, chains int, env ...string) ([]float64, error) {
	times := filepath.Join(b.dir, state+"-times")
	agent := must(b.agent(hopping(times)))
	check(b.chains(agent, times, state, chains, env...))
	raw := must(os.ReadFile(times))
	hops, _, err := readHops(string(raw))
	return hops, err
}

// chains lets a daemon run so many cycles, one after the other.
func (b *bench) chains(agent, times, state string, count int, env ...string) error {
	d := must(b.start(agent, filepath.Join(b.dir, state), env...))
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
		check(err)
		if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusAccepted {
			return fmt.Errorf("submit cycle: %s %w", r.Status, err)
		}
	}
	return nil
}
