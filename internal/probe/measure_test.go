package probe

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
)

var (
	measureFor = flag.Duration("probe.measure", 0, "measure the scheduler for so long")
	serveOnly  = flag.Bool("probe.serve", false, "be the server that is measured against")
)

// TestServeForMeasuring is the other process of the measurement below, so that its own cost is not counted.
func TestServeForMeasuring(t *testing.T) {
	if !*serveOnly {
		t.Skip("only a part of the measurement")
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"status":"ok"}`) })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	_, _ = fmt.Fprintln(os.Stderr, plain.URL, secure.URL)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the parent ends
}

// TestAThousandProbesCostLittle measures processor time and memory of 1,000 http probes every 30 s, half of them over TLS:
//
//	go test ./internal/probe -run TestAThousandProbesCostLittle -probe.measure 60s -v
func TestAThousandProbesCostLittle(t *testing.T) {
	if *measureFor == 0 {
		t.Skip("give -probe.measure 60s")
	}
	server := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeForMeasuring$", "-probe.serve")
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close(); _ = server.Wait() }()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addresses := strings.Fields(line)
	if len(addresses) != 2 {
		t.Fatalf("the server says %q", line)
	}
	var watched []Watched
	for i := range 1000 {
		watched = append(watched, Watched{"home", ops.ProbeSpec{
			Service: fmt.Sprintf("s%d", i), Type: "http", URL: fmt.Sprintf("%s/%d", addresses[i%2], i), InsecureTLS: true,
			ExpectJSON: []string{`$.status == "ok"`}, Interval: 30 * time.Second,
		}})
	}
	var good, bad, batches atomic.Int64
	s := NewScheduler(SchedulerOptions{Prober: New(Options{}), Deliver: func(_ context.Context, checks []ops.Check) {
		batches.Add(1)
		for _, c := range checks {
			if c.Status == ops.Healthy {
				good.Add(1)
			} else {
				bad.Add(1)
			}
		}
	}})
	s.Watch(watched)
	ctx, cancel := context.WithTimeout(t.Context(), *measureFor)
	defer cancel()
	before, start := processorTime(t), time.Now()
	_ = s.Run(ctx)
	wall := time.Since(start)
	share := 100 * float64(processorTime(t)-before) / float64(wall)
	peak := peakMemory(t)
	t.Logf("%d good, %d bad, %d batches in %s: %.2f %% of a core, at most %d MB", good.Load(), bad.Load(), batches.Load(), wall.Round(time.Second), share, peak)
	if bad.Load() > 0 || float64(good.Load()) < 0.8*1000*wall.Seconds()/30-500 || share > 15 || peak > 80 {
		t.Error("more than 15 % of a core, or 80 MB, or results are missing")
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakMemory is the largest resident size so far, in MB.
func peakMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc here")
	}
	for line := range strings.Lines(string(status)) {
		var kb int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			return kb >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
