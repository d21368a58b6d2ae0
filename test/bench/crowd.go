package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// crowd measures the hop while many chains, each in an environment of its own, are to be done at once.
func (b *bench) crowd(chains int) ([]figure, error) {
	times := filepath.Join(b.dir, "crowd-times")
	agent := must(b.agent(hopping(times)))
	file := filepath.Join(b.dir, "crowd.yaml")
	text := "interval: 24h\nenvironments:\n"
	for i := range chains {
		text += fmt.Sprintf("  - name: env%03d\n", i)
	}
	check(os.WriteFile(file, []byte(text), 0o600))
	// A daemon without history starts one cycle in every environment, all at once.
	d := must(b.start(agent, filepath.Join(b.dir, "crowd"), "CLAUDEOPS_CONFIG="+file))
	defer d.stop()
	begun := time.Now()
	for {
		raw, err := os.ReadFile(times)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if bytes.Count(raw, []byte(" end 3 ")) >= chains {
			break
		}
		if time.Since(begun) > 15*time.Minute {
			return nil, fmt.Errorf("the chains do not end: %d of %d did", bytes.Count(raw, []byte(" end 3 ")), chains)
		}
		<-time.After(100 * time.Millisecond)
	}
	took := time.Since(begun)
	rss := must(residentMB(d.cmd.Process.Pid))
	raw := must(os.ReadFile(times))
	hops, most, err := readHops(string(raw))
	if err != nil {
		return nil, err
	}
	if len(hops) != 2*chains {
		return nil, fmt.Errorf("%d hops of %d chains", len(hops), chains)
	}
	return []figure{{
		fmt.Sprintf("%d chains of three tiers at once: hop", chains),
		fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, longest %.0f ms (%d hops; all done in %.0f s, at most %d agents at once, %d MB)",
			hops[len(hops)/2], hops[len(hops)*99/100], hops[len(hops)-1], len(hops), took.Seconds(), most, rss),
		"",
	}}, nil
}

// hopping is an agent that hands over until Tier 3 and writes down when it began and ended, and in which cycle.
func hopping(times string) string {
	const handoff = `{"schema_version":1,"recommended_tier":%d,"services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"x"}],"investigation_findings":"f","remediation_attempted":"r","cooldown_state":{}}`
	return "echo \"$EPOCHREALTIME start $CLAUDEOPS_TIER $CLAUDEOPS_CYCLE_ID\" >> " + times + "\n" +
		"[ $CLAUDEOPS_TIER -lt 3 ] && printf '" + handoff + "' $((CLAUDEOPS_TIER+1)) > $CLAUDEOPS_STATE_DIR/handoff.json\n" +
		"echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"tools\":[\"Bash\"]}'\n" + // as every agent does when it starts
		result + "\necho \"$EPOCHREALTIME end $CLAUDEOPS_TIER $CLAUDEOPS_CYCLE_ID\" >> " + times + "\n"
}

// readHops returns the times from the end of a tier to the start of the next one of the same cycle, in order of length, and how
// many agents ran at once.
func readHops(text string) (hops []float64, most int, err error) {
	type moment struct {
		at          float64
		what, cycle string
	}
	var all []moment
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, 0, fmt.Errorf("read times: %q", line)
		}
		at, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return nil, 0, fmt.Errorf("read times: %w", err)
		}
		all = append(all, moment{at, f[1], f[3]})
	}
	// Each wrote its own line; what stands first need not have happened first.
	slices.SortStableFunc(all, func(a, b moment) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	ended := map[string]float64{}
	running := 0
	for _, m := range all {
		if m.what == "end" {
			ended[m.cycle] = m.at
			running--
			continue
		}
		if running++; running > most {
			most = running
		}
		if before, ok := ended[m.cycle]; ok {
			hops = append(hops, (m.at-before)*1000)
		}
	}
	slices.Sort(hops)
	return hops, most, nil
}
