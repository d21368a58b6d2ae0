package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"claudeops/test/testtoken"
)

const (
	probeCount    = 1000
	probeInterval = 30 * time.Second
)

// probes measures a daemon that watches a thousand services, half of them over TLS, with everything that belongs to it: judging, rows,
// hours, pages that are ready to be asked for. The services are played by this process, so that they do not count. Gatus, if its program
// is given, then watches the same services at the same interval.
func (b *bench) probes(length time.Duration, gatus string) ([]figure, error) {
	played := must(playServices(probeCount))
	defer played.end()
	ours := must(b.probesOurs(played, length))
	if gatus == "" {
		return append(ours, figure{"Gatus on the same targets", "not measured: name its program with -gatus", ""}), nil
	}
	theirs, err := b.probesGatus(gatus, played, length)
	return append(ours, theirs...), err
}

func (b *bench) probesOurs(played *services, length time.Duration) ([]figure, error) {
	agent := must(b.agent(result + "\n"))
	configuration := filepath.Join(b.dir, "probes.yaml")
	check(os.WriteFile(configuration, []byte(servicesYAML(played.urls)), 0o600))
	state := filepath.Join(b.dir, "probes")
	d := must(b.start(agent, state, "CLAUDEOPS_CONFIG="+configuration))
	defer d.stop() // a second stop does nothing
	u := must(watchProcess(d.cmd.Process.Pid, played, length))
	d.stop() // what it has counted is then on record
	good, bad, err := countChecks(filepath.Join(state, "claudeops.db"))
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d http probes every %s, half over TLS, for %s", probeCount, probeInterval, u.wall.Round(time.Second))
	return append(u.figures(what, "≤ 3 % of a core", "≤ 45 MB"),
		figure{"… results on record, start and end included", fmt.Sprintf("%d good, %d bad", good, bad), "all good"}), nil
}

// usage is what a process used while it probed.
type usage struct {
	wall, processor   time.Duration
	rss, start, after int // MB: at the end, most during the start, most after it
	asked             int64
}

// watchProcess measures a process after every probe has run once: the start is no part of a day.
func watchProcess(pid int, played *services, length time.Duration) (u usage, err error) {
	first := played.counts()
	<-time.After(probeInterval)
	// Gatus needs minutes: it starts one probe after the other.
	if err := until(context.Background(), func() (bool, error) { return played.all(first), nil }); err != nil {
		return u, fmt.Errorf("wait for the first result of every probe: %w", err)
	}
	u.start = must(memoryMB(pid, "VmHWM:"))
	// The kernel then counts the peak from here.
	check(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
	before := must(processorTime(pid))
	begun, asked := time.Now(), played.asked.Load()
	<-time.After(length)
	u.asked = played.asked.Load() - asked
	after := must(processorTime(pid))
	u.wall, u.processor = time.Since(begun), after-before
	u.after = must(memoryMB(pid, "VmHWM:"))
	u.rss, err = residentMB(pid)
	return u, err
}

func (u usage) figures(what, processor, memory string) []figure {
	due := probeCount * u.wall.Seconds() / probeInterval.Seconds()
	return []figure{
		{what + ": processor", fmt.Sprintf("%.1f %% of a core", 100*u.processor.Seconds()/u.wall.Seconds()), processor},
		{"… memory", fmt.Sprintf("%d MB, at most %d MB; at most %d MB during the start", u.rss, u.after, u.start), memory},
		{"… requests in that time", fmt.Sprint(u.asked), fmt.Sprintf("about %.0f", due)},
	}
}

// servicesYAML is a configuration in which each service has one probe.
func servicesYAML(urls []string) string {
	var y strings.Builder
	y.WriteString("services:\n")
	for i, url := range urls {
		fmt.Fprintf(&y, "  - name: service-%d\n    probes: [{type: http, url: %q, insecure_tls: true, expect_json: ['$.status == \"ok\"'], interval: %s}]\n",
			i, url, probeInterval)
	}
	return y.String()
}

// services are played by this process, each at an address of its own and half of them with a certificate of their own, so that nothing
// that a probe learns about one of them helps with another.
type services struct {
	urls  []string
	asked atomic.Int64
	each  []atomic.Int64
	end   func()
}

// all reports whether every service was asked since the counts that are given.
func (s *services) all(before []int64) bool {
	for i := range s.each {
		if s.each[i].Load() == before[i] {
			return false
		}
	}
	return true
}

func (s *services) counts() []int64 {
	out := make([]int64, len(s.each))
	for i := range s.each {
		out[i] = s.each[i].Load()
	}
	return out
}

// playServices answers health checks on many loopback addresses.
func playServices(count int) (*services, error) {
	s := &services{each: make([]atomic.Int64, count)}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if i, err := strconv.Atoi(r.URL.Path[1:]); err == nil && i < count {
			s.each[i].Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	})}
	var served sync.WaitGroup
	s.end = func() {
		_ = server.Close()
		served.Wait()
	}
	for i := range count {
		ip := net.IPv4(127, 1, byte(i/250), byte(1+i%250))
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(ip.String(), "0"))
		if err != nil {
			s.end()
			return nil, err
		}
		scheme := "http"
		if i%2 == 1 {
			certificate, err := selfSigned(ip)
			if err != nil {
				s.end()
				return nil, errors.Join(err, l.Close())
			}
			scheme, l = "https", tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		}
		s.urls = append(s.urls, fmt.Sprintf("%s://%s/%d", scheme, l.Addr(), i))
		served.Go(func() { _ = server.Serve(l) })
	}
	return s, nil
}

func selfSigned(ip net.IP) (tls.Certificate, error) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{ip}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

// processorTime is what a process and its threads have used.
func processorTime(pid int) (time.Duration, error) {
	raw := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	// The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: only %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n := must(strconv.ParseInt(f, 10, 64))
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil // USER_HZ is 100 on every Linux that Go runs on
}

// countChecks counts the results, the good and the others. A result that tells nothing new is counted and not a row of its own.
func countChecks(path string) (good, bad int, err error) {
	db := must(sql.Open("sqlite", "file:"+path))
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(context.Background(),
		`SELECT COALESCE(SUM(CASE WHEN status = 'healthy' THEN checks END), 0), COALESCE(SUM(CASE WHEN status <> 'healthy' THEN checks END), 0) FROM check_hours`).
		Scan(&good, &bad)
	return good, bad, err
}

// probesGatus lets Gatus watch the services that the daemon has watched. It keeps its results in SQLite, as the daemon does.
func (b *bench) probesGatus(program string, played *services, length time.Duration) ([]figure, error) {
	l := must((&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"))
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	check(l.Close())
	configuration := filepath.Join(b.dir, "gatus.yaml")
	check(os.WriteFile(configuration, []byte(gatusYAML(port, filepath.Join(b.dir, "gatus.db"), played.urls)), 0o600))
	c := exec.Command(program) //nolint:gosec,noctx // it was named to be measured
	c.Dir = b.dir
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.dir, "GATUS_CONFIG_PATH=" + configuration, "GATUS_LOG_LEVEL=ERROR"}
	var said strings.Builder
	c.Stderr, c.Stdout = &said, &said
	check(c.Start())
	d := &daemon{cmd: c}
	defer d.stop()
	u, err := watchProcess(c.Process.Pid, played, length)
	if err != nil {
		return nil, fmt.Errorf("measure Gatus: %w\n%s", err, said.String())
	}
	return u.figures("Gatus on the same targets", "", ""), nil
}

func gatusYAML(port, database string, urls []string) string {
	var y strings.Builder
	fmt.Fprintf(&y, "web: {address: 127.0.0.1, port: %s}\nstorage: {type: sqlite, path: %q}\n", port, database)
	// As many at once as the daemon; the default of 3 is for probes of a single site.
	fmt.Fprintf(&y, "concurrency: 64\nendpoints:\n")
	for i, url := range urls {
		fmt.Fprintf(&y, "  - {name: service-%d, url: %q, interval: %s, client: {insecure: true, timeout: 10s}, conditions: ['[STATUS] == 200', '[BODY].status == ok']}\n",
			i, url, probeInterval)
	}
	return y.String()
}

// idle measures a daemon in which nothing happens but probes that find everything healthy.
func (b *bench) idle(length time.Duration) ([]figure, error) {
	const count = 50
	d, end, err := b.probing(must(b.agent(result+"\n")), count, probeInterval)
	if err != nil {
		return nil, err
	}
	defer end()
	<-time.After(probeInterval + 10*time.Second) // every probe has run once, and the first cycle is over
	used := must(d.processorShare(length))
	return []figure{{fmt.Sprintf("%d probes every %s: processor", count, probeInterval), fmt.Sprintf("%.2f %% of a core", used), "< 0.2 %"}}, nil
}

// manyProbes is how many services `-only many` watches.
const manyProbes = 10_000

func (b *bench) weightOfMany(agent string) ([]figure, error) {
	const interval = time.Minute
	d, end, err := b.probing(agent, manyProbes, interval)
	if err != nil {
		return nil, err
	}
	defer end()
	pid := d.cmd.Process.Pid
	started := must(processorTime(pid))
	first, err := d.ask("/")
	check(err)
	page := must(processorTime(pid))
	<-time.After(interval + 10*time.Second) // every probe has run once, and the first cycle is over
	used := must(d.processorShare(interval))
	for _, path := range []string{"/", "/services", "/services?q=9999", "/config"} {
		_, err := d.ask(path)
		check(err)
	}
	peak := must(memoryMB(pid, "VmHWM:"))
	rss, err := residentMB(pid)
	verify := b.command(agent, filepath.Join(b.dir, "unused"), "config", "check", "--config", filepath.Join(b.dir, fmt.Sprintf("probing-%d.yaml", manyProbes)))
	if said, err := verify.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("check configuration: %w\n%s", err, said)
	}
	usage, ok := verify.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, errors.New("no resource usage on this system")
	}
	return []figure{
		{
			fmt.Sprintf("%d services: start and first page", manyProbes),
			fmt.Sprintf("%.2f and %.2f s of CPU, the page after %.0f ms", started.Seconds(), (page - started).Seconds(), first), "≤ 2 s of CPU",
		},
		{"… memory at the peak, with the first cycle and the pages", fmt.Sprintf("%d MB", peak), "≤ 130 MB"},
		{
			"… `claudeops config check`",
			fmt.Sprintf("%.2f s of CPU, %d MB", (verify.ProcessState.UserTime() + verify.ProcessState.SystemTime()).Seconds(), usage.Maxrss>>10), "≤ 2 s, ≤ 130 MB",
		},
		{fmt.Sprintf("%d services with a probe every %s: processor", manyProbes, interval), fmt.Sprintf("%.1f %% of a core", used), "≤ 25 %"},
		{"… memory", fmt.Sprintf("%d MB", rss), "≤ 130 MB"},
	}, err
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

// ask requests a page and returns how many milliseconds the answer took.
func (d *daemon) ask(path string) (ms float64, err error) {
	begun := time.Now()
	r, err := (&http.Client{Transport: testtoken.Transport{}}).Get("http://" + d.addr + path) //nolint:noctx // loopback
	check(err)
	_, err = io.Copy(io.Discard, r.Body)
	if err = errors.Join(err, r.Body.Close()); err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("ask for %s: %s", path, r.Status)
	}
	return milliseconds(begun), err
}
