package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/agent/keeper"
	"claudeops/test/testtoken"
)

const (
	fewProbes   = 50
	manyProbes  = 10_000
	metricsOf   = 40_000
	manyAlerts  = 20_000
	weightRest  = 30 * time.Second
	manyForPage = 9
)

// weight measures what the daemon takes for itself: at rest, with fifty probes, with very many, and when it is asked about them.
func (b *bench) weight() ([]figure, error) {
	agent := must(b.agent(result + "\n"))
	var out []figure
	for _, measure := range []func(string) ([]figure, error){b.weightAtRest, b.weightOfMany, b.metricsOfMany, b.overviewOfAlerts} {
		figures := must(measure(agent))
		out = append(out, figures...)
	}
	return out, nil
}

// weightAtRest watches a daemon with fifty probes. Its keeper is the child process that outlives it.
func (b *bench) weightAtRest(agent string) ([]figure, error) {
	d, end, err := b.probing(agent, fewProbes, 30*time.Second)
	if err != nil {
		return nil, err
	}
	defer end()
	<-time.After(10 * time.Second) // the start is no part of a day
	used := must(d.processorShare(weightRest))
	own := must(memoryMB(d.cmd.Process.Pid, "RssAnon:"))
	file := must(memoryMB(d.cmd.Process.Pid, "RssFile:"))
	child := must(keeperOf(d.cmd.Process.Pid))
	held := must(memoryMB(child, "RssAnon:"))
	return []figure{
		{"anonymous memory of the daemon at rest", fmt.Sprintf("%d MB, and %d MB of files", own, file), "≤ 18 MB"},
		{"… of the keeper", fmt.Sprintf("%d MB", held), "≤ 6 MB"},
		{fmt.Sprintf("%d probes every 30 s: processor", fewProbes), fmt.Sprintf("%.2f %% of a core", used), "0.0 %"},
	}, nil
}

func (b *bench) weightOfMany(agent string) ([]figure, error) {
	const interval = time.Minute
	d, end, err := b.probing(agent, manyProbes, interval)
	if err != nil {
		return nil, err
	}
	defer end()
	<-time.After(interval + 10*time.Second) // every probe has run once
	used := must(d.processorShare(interval))
	rss, err := residentMB(d.cmd.Process.Pid)
	return []figure{
		{fmt.Sprintf("%d services with a probe every %s: processor", manyProbes, interval), fmt.Sprintf("%.1f %% of a core", used), "≤ 25 %"},
		{"… memory", fmt.Sprintf("%d MB", rss), "≤ 250 MB"},
	}, err
}

// metricsOfMany asks for the metrics of very many services, which no probe checks while it is measured.
func (b *bench) metricsOfMany(agent string) ([]figure, error) {
	d, end, err := b.probing(agent, metricsOf, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	defer end()
	times, size, err := d.ask("/metrics", manyForPage)
	return []figure{{fmt.Sprintf("`/metrics` with %d services", metricsOf), fmt.Sprintf("%s, %.1f MB", spread(times), float64(size)/1e6), "≤ 1 s"}}, err
}

// overviewOfAlerts asks for the overview while very many alerts of another system are active.
func (b *bench) overviewOfAlerts(agent string) ([]figure, error) {
	state := filepath.Join(b.dir, "alerts")
	d := must(b.start(agent, state))
	defer d.stop()
	check(d.alert(manyAlerts))
	db := must(sql.Open("sqlite", "file:"+filepath.Join(state, "claudeops.db")+"?mode=ro"))
	defer func() { _ = db.Close() }()
	var stored int
	check(until(context.Background(), func() (bool, error) {
		err := db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM alerts").Scan(&stored)
		return stored >= manyAlerts, err
	}))
	times, size, err := d.ask("/", manyForPage)
	return []figure{{fmt.Sprintf("overview with %d alerts", stored), fmt.Sprintf("%s, %d kB", spread(times), size>>10), "≤ 300 ms"}}, err
}

// alert sends alerts in the form of Alertmanager, some hundred in a message.
func (d *daemon) alert(count int) error {
	const each = 200
	client := &http.Client{Transport: testtoken.Transport{}}
	for sent := 0; sent < count; sent += each {
		var alerts []string
		for i := range each {
			alerts = append(alerts, fmt.Sprintf(`{"status":"firing","labels":{"alertname":"Down","service":"service-%d"},"annotations":{"summary":"it does not answer"},"startsAt":%q,"fingerprint":"f%d"}`,
				sent+i, time.Now().UTC().Format(time.RFC3339), sent+i))
		}
		body := `{"version":"4","status":"firing","receiver":"claudeops","groupLabels":{},"commonLabels":{},"commonAnnotations":{},"externalURL":"","groupKey":"g","alerts":[` + strings.Join(alerts, ",") + `]}`
		for {
			r, err := client.Post("http://"+d.addr+"/api/v1/webhooks/alertmanager", "application/json", strings.NewReader(body)) //nolint:noctx // loopback
			check(err)
			text, _ := io.ReadAll(r.Body)
			check(r.Body.Close())
			if r.StatusCode < http.StatusMultipleChoices {
				break
			}
			if r.StatusCode != http.StatusTooManyRequests {
				return fmt.Errorf("send alerts: %s: %s", r.Status, text)
			}
			<-time.After(100 * time.Millisecond)
		}
	}
	return nil
}

// probing starts a daemon with so many services, all answered by one server.
func (b *bench) probing(agent string, count int, interval time.Duration) (*daemon, func(), error) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var y strings.Builder
	y.WriteString("services:\n")
	for i := range count {
		fmt.Fprintf(&y, "  - name: service-%d\n    probes: [{type: http, url: '%s/%d', interval: %s}]\n", i, server.URL, i, interval)
	}
	config := filepath.Join(b.dir, fmt.Sprintf("probing-%d.yaml", count))
	if err := os.WriteFile(config, []byte(y.String()), 0o600); err != nil {
		server.Close()
		return nil, nil, err
	}
	d, err := b.start(agent, filepath.Join(b.dir, fmt.Sprintf("probing-%d", count)), "CLAUDEOPS_CONFIG="+config)
	if err != nil {
		server.Close()
		return nil, nil, err
	}
	return d, func() { d.stop(); server.Close() }, nil
}

// processorShare is how much of a core the daemon uses in a time, in percent.
func (d *daemon) processorShare(length time.Duration) (float64, error) {
	before := must(processorTime(d.cmd.Process.Pid))
	begun := time.Now()
	<-time.After(length)
	after, err := processorTime(d.cmd.Process.Pid)
	return 100 * (after - before).Seconds() / time.Since(begun).Seconds(), err
}

// ask requests a page some times and returns how many milliseconds each answer took.
func (d *daemon) ask(path string, times int) (ms []float64, size int, err error) {
	client := &http.Client{Transport: testtoken.Transport{}}
	for range times {
		begun := time.Now()
		r, err := client.Get("http://" + d.addr + path) //nolint:noctx // loopback
		check(err)
		text, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, 0, err
		}
		if r.StatusCode != http.StatusOK {
			return nil, 0, fmt.Errorf("ask for %s: %s", path, r.Status)
		}
		ms, size = append(ms, milliseconds(begun)), len(text)
	}
	return ms, size, nil
}

// keeperOf finds the keeper among the children of a daemon.
func keeperOf(pid int) (int, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, globErr := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err = errors.Join(err, globErr); err != nil {
		return 0, err
	}
	for _, name := range tasks {
		raw := must(os.ReadFile(name))
		children = append(children, raw...)
	}
	for _, word := range strings.Fields(string(children)) {
		command, err := os.ReadFile("/proc/" + word + "/cmdline")
		if err != nil {
			continue // it has ended
		}
		if slices.Contains(strings.Split(string(command), "\x00"), keeper.Word) {
			return strconv.Atoi(word)
		}
	}
	return 0, errors.New("the daemon has no keeper")
}
