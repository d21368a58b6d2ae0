package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// parts measures where the time of a hop goes, with a build that notes the time at every failpoint. The notes themselves take time, so
// the sum is more than a hop.
func (b *bench) parts(chains int) ([]figure, error) {
	marked := filepath.Join(b.dir, "claudeops-marked")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", marked, "./cmd/claudeops") //nolint:gosec,noctx // our own program
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build claudeops: %w\n%s", err, out)
	}
	times, points := filepath.Join(b.dir, "parts-times"), filepath.Join(b.dir, "parts-points")
	agent, err := b.agent(hoppingAfter(times, workTime))
	if err != nil {
		return nil, err
	}
	of := *b
	of.binary = marked
	if err := of.chains(agent, times, "parts", chains, "CLAUDEOPS_FAILPOINT_LOG="+points, "CLAUDEOPS_FAILPOINT_TIMES=1"); err != nil {
		return nil, err
	}
	agents, err := readMoments(times)
	if err != nil {
		return nil, err
	}
	daemon, err := readMoments(points)
	if err != nil {
		return nil, err
	}
	return partsOf(agents, daemon), nil
}

// moment is one line of a log of times.
type moment struct {
	at   float64
	what string
}

func readMoments(path string) (out []moment, err error) {
	raw, err := os.ReadFile(path) //nolint:gosec // written by this program's children
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		at, what, ok := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err = cmp.Or(err, map[bool]error{false: errors.New("a line has no time")}[ok]); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, moment{seconds, what})
	}
	return out, nil
}

// partsOf returns, for each point between the end of an agent and the start of the next one, how long after the end it is reached.
// Only hops with the most usual sequence of points count.
func partsOf(agents, daemon []moment) []figure {
	sequences := map[string][][]float64{}
	for i := 1; i < len(agents); i++ {
		begin, end := agents[i-1], agents[i]
		if !strings.HasPrefix(begin.what, "end ") || strings.HasPrefix(begin.what, "end 3") || !strings.HasPrefix(end.what, "start ") {
			continue
		}
		names, at := []string{}, []float64{}
		for _, m := range daemon {
			if m.at > begin.at && m.at < end.at {
				names, at = append(names, m.what), append(at, (m.at-begin.at)*1000)
			}
		}
		key := strings.Join(append(names, "the next agent's first line"), "|")
		sequences[key] = append(sequences[key], append(at, (end.at-begin.at)*1000))
	}
	usual, hops := "", [][]float64(nil)
	for key, rows := range sequences {
		if len(rows) > len(hops) || (len(rows) == len(hops) && key < usual) {
			usual, hops = key, rows
		}
	}
	out := make([]figure, 0, strings.Count(usual, "|")+1)
	before := 0.0
	for i, name := range strings.Split(usual, "|") {
		column := make([]float64, 0, len(hops))
		for _, row := range hops {
			column = append(column, row[i])
		}
		slices.Sort(column)
		middle := column[len(column)/2]
		out = append(out, figure{name, fmt.Sprintf("p50 %.1f ms after the end of the agent, %.1f ms after the line above (%d hops)", middle, middle-before, len(hops)), ""})
		before = middle
	}
	return out
}
