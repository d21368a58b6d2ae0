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
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	probeCount    = 1000
	probeInterval = 30 * time.Second
)

// probes measures a daemon that watches a thousand services, half of them over TLS, with everything that belongs to it:
// judging, rows, hours, pages that are ready to be asked for. The services are played by this process, so that they do not count.
func (b *bench) probes(length time.Duration) ([]figure, error) {
	played, err := playServices()
	if err != nil {
		return nil, err
	}
	defer played.end()
	agent, err := b.agent(result + "\n")
	if err != nil {
		return nil, err
	}
	configuration := filepath.Join(b.dir, "probes.yaml")
	if err := os.WriteFile(configuration, []byte(thousandServices(played.plain, played.secure)), 0o600); err != nil {
		return nil, err
	}
	state := filepath.Join(b.dir, "probes")
	d, err := b.start(agent, state, "CLAUDEOPS_CONFIG="+configuration)
	if err != nil {
		return nil, err
	}
	defer d.stop()              // a second stop does nothing
	<-time.After(probeInterval) // every probe has run once: the start is no part of a day
	pid := d.cmd.Process.Pid
	before, err := processorTime(pid)
	if err != nil {
		return nil, err
	}
	begun, asked := time.Now(), played.asked.Load()
	<-time.After(length)
	asked = played.asked.Load() - asked
	after, err := processorTime(pid)
	if err != nil {
		return nil, err
	}
	wall := time.Since(begun)
	peak, err := memoryMB(pid, "VmHWM:")
	if err != nil {
		return nil, err
	}
	rss, err := residentMB(pid)
	if err != nil {
		return nil, err
	}
	d.stop() // what it has counted is then on record
	good, bad, err := countChecks(filepath.Join(state, "claudeops.db"))
	if err != nil {
		return nil, err
	}
	due := probeCount * wall.Seconds() / probeInterval.Seconds()
	return []figure{
		{
			fmt.Sprintf("%d http probes every %s, half over TLS, for %s: processor", probeCount, probeInterval, wall.Round(time.Second)),
			fmt.Sprintf("%.1f %% of a core", 100*(after-before).Seconds()/wall.Seconds()), "< 15 %",
		},
		{"… memory", fmt.Sprintf("%d MB, at most %d MB", rss, peak), "< 80 MB"},
		{"… requests in that time", fmt.Sprint(asked), fmt.Sprintf("about %.0f", due)},
		{"… results on record, start and end included", fmt.Sprintf("%d good, %d bad", good, bad), "all good"},
	}, nil
}

// thousandServices is a configuration in which each service has one probe.
func thousandServices(plain, secure string) string {
	var y strings.Builder
	y.WriteString("services:\n")
	for i := range probeCount {
		base := plain
		if i%2 == 1 {
			base = secure
		}
		fmt.Fprintf(&y, "  - name: service-%d\n    probes: [{type: http, url: %q, insecure_tls: true, expect_json: ['$.status == \"ok\"'], interval: %s}]\n",
			i, fmt.Sprintf("%s/%d", base, i), probeInterval)
	}
	return y.String()
}

// services are played by this process.
type services struct {
	plain, secure string
	asked         atomic.Int64
	end           func()
}

// playServices answers health checks on two ports of this machine, one of them with TLS.
func playServices() (*services, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	s := &services{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	})}
	open, err := listen()
	if err != nil {
		return nil, err
	}
	closed, err := listen()
	if err != nil {
		return nil, errors.Join(err, open.Close())
	}
	served := make(chan error, 2)
	go func() { served <- server.Serve(open) }()
	go func() {
		served <- server.Serve(tls.NewListener(closed, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	}()
	s.end = func() {
		_ = server.Close()
		<-served
		<-served
	}
	s.plain, s.secure = "http://"+open.Addr().String(), "https://"+closed.Addr().String()
	return s, nil
}

func listen() (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

// processorTime is what a process and its threads have used.
func processorTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; utime and stime are the 14th and 15th field.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc/%d/stat: only %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil // USER_HZ is 100 on every Linux that Go runs on
}

// countChecks counts the results, the good and the others. A result that tells nothing new is counted and not a row of its own.
func countChecks(path string) (good, bad int, err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(context.Background(),
		`SELECT COALESCE(SUM(CASE WHEN status = 'healthy' THEN checks END), 0), COALESCE(SUM(CASE WHEN status <> 'healthy' THEN checks END), 0) FROM check_hours`).
		Scan(&good, &bad)
	return good, bad, err
}
