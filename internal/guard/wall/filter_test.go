//go:build linux

package wall_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/network"
)

// recorder is an HTTP service that notes every byte it is sent.
func (o *outside) recorder(t *testing.T, name string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				r := bufio.NewReader(io.TeeReader(conn, noted(func(p []byte) { o.saw(name, string(p)) })))
				for {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, q.Body)
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
				}
			}()
		}
	}()
	return portOf(t, l.Addr().String())
}

type noted func([]byte)

func (n noted) Write(p []byte) (int, error) {
	n(p)
	return len(p), nil
}

// refusals are what was refused, as one text.
func (o *outside) refusals() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprint(o.refused)
}

// A service that a tcp probe names gets a connection and not one byte, whatever program speaks to it.
func TestATCPProbePermitsNotOneByte(t *testing.T) {
	netPlaces(t, func(t *testing.T, p *place, s *wall.Sandbox, dir string) {
		o := newOutside(t)
		raw := portOf(t, o.raw.Addr().String())
		g := o.network(dir, network.Permit{Name: "queue", Host: "127.0.0.1", Port: raw, How: network.Touch})
		session, env := p.session(s, g, dir)
		out := p.inside(s, session, env, strings.ReplaceAll(`
curl -s -m 3 --noproxy '' http://127.0.0.1:RAW/
curl -s -m 3 --noproxy '*' http://127.0.0.1:RAW/
curl -s -m 3 --noproxy '' -X GET -d 'put 0 0 60 4' http://127.0.0.1:RAW/
curl -s -m 3 --noproxy '*' -X GET --data-binary $'put 0 0 60 4\r\nevil\r\n' http://127.0.0.1:RAW/
curl -s -m 3 --noproxy '*' -X $'put 0 0 60 4\r\nevil' http://127.0.0.1:RAW/
curl -s -m 3 -p http://127.0.0.1:RAW/; curl -sk -m 3 https://127.0.0.1:RAW/
curl -s -m 3 gopher://127.0.0.1:RAW/_stats; echo stats | curl -s -m 3 telnet://127.0.0.1:RAW; curl -s -m 3 dict://127.0.0.1:RAW/stats
(exec 3<>/dev/tcp/127.0.0.1/RAW && printf 'put 0 0 60 4\r\nevil\r\n' >&3 && cat <&3) 2>&1
(exec 3<>/dev/tcp/127.0.0.1/RAW && printf '\x16\x03\x01\x00\x05hello' >&3 && cat <&3) 2>&1
(exec 3<>/dev/tcp/127.0.0.1/RAW) 2>&1
nc -w 1 127.0.0.1 RAW <<< stats; nc -z -w 1 127.0.0.1 RAW
echo done`, "RAW", strconv.Itoa(raw)))
		if got := strings.ReplaceAll(o.got("raw"), "connected ", ""); got != "" || !strings.Contains(out, "done") {
			t.Errorf("it was sent %q\n%s", got, out)
		}
		if dir != "" && !strings.Contains(o.got("raw"), "connected") {
			t.Error("it was not even connected to")
		}
		if got := o.refusals(); !strings.Contains(got, "tcp probe") || !strings.Contains(got, "127.0.0.1:"+strconv.Itoa(raw)) {
			t.Errorf("refused: %s", got)
		}
	})
}

// A request carries its line, the headers that are listed, and nothing else.
func TestARequestCarriesOnlyWhatIsListed(t *testing.T) {
	netPlaces(t, func(t *testing.T, p *place, s *wall.Sandbox, dir string) {
		o := newOutside(t)
		port := o.recorder(t, "recorder")
		g := o.network(dir, network.Permit{Name: "app", Host: "127.0.0.1", Port: port, Headers: []string{"X-Api-Version"}})
		session, env := p.session(s, g, dir)
		request := func(lines string) string { // one that no client would send
			to, prefix := "127.0.0.1/"+strconv.Itoa(port), ""
			if dir == "" {
				proxy := strings.TrimPrefix(g.Proxy(), "http://")
				_, at, _ := strings.Cut(proxy, "@")
				to, prefix = strings.Replace(at, ":", "/", 1), "http://127.0.0.1:"+strconv.Itoa(port)
			}
			lines = strings.ReplaceAll(strings.ReplaceAll(lines, "AT/", prefix+"/"), "\n", `\r\n`)
			return fmt.Sprintf("(exec 3<>/dev/tcp/%s && printf '%s' >&3 && timeout 2 cat <&3) 2>&1\n", to, lines)
		}
		script := strings.ReplaceAll(`
for p in "" "*"; do
c() { curl -s -m 5 --noproxy "$p" "$@"; }
echo kept $(c -H 'X-Api-Version: kept-1' -H 'Accept: kept/2' -H 'If-None-Match: kept-3' -A kept-4 -H 'Range: bytes=0-9' -H 'Cache-Control: no-cache' URL/)
c -X GET -d CANARY-body URL/; c -X GET -H 'Transfer-Encoding: chunked' -d CANARY-chunks URL/; c -I -X HEAD --data CANARY-head URL/
c -H 'X-Evil: CANARY-header' -H 'Authorization: Bearer CANARY-auth' -H 'Cookie: a=CANARY-cookie' -H 'X-HTTP-Method-Override: CANARY' URL/
c -H 'Expect: CANARY-expect' -H 'Referer: CANARY-referer' -H 'X-Forwarded-For: CANARY' -H 'TE: CANARY' -H 'X-Original-URL: /CANARY' URL/
c -H 'Host: CANARY-host.example' URL/; c --request-target http://CANARY-target.example/ URL/; c -X CONNECT URL/CANARY-connect; c -X TRACE URL/CANARY-trace
c -H 'Connection: Upgrade, HTTP2-Settings' -H 'Upgrade: h2c' -H 'HTTP2-Settings: CANARY' URL/CANARY-upgrade; c --http2-prior-knowledge -H 'X-H2: CANARY-h2' URL/
c -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Key: CANARY' URL/CANARY-websocket
c -X OPTIONS -d CANARY-options URL/CANARY; c -X get URL/CANARY-lower; c -X POST -d CANARY URL/CANARY-post
done
`, "URL", "http://127.0.0.1:"+strconv.Itoa(port))
		auth := ""
		for _, v := range env {
			if _, at, ok := strings.Cut(v, "http://session:"); ok && auth == "" {
				token, _, _ := strings.Cut(at, "@")
				auth = "Proxy-Authorization: Basic $(printf session:" + token + " | base64 -w0)\n"
			}
		}
		host := "Host: 127.0.0.1:" + strconv.Itoa(port) + "\n" + auth
		for _, lines := range []string{
			"GET AT/ HTTP/1.1\n" + host + "Content-Length: 6\nContent-Length: 30\n\nCANARY-two-lengths",
			"GET AT/ HTTP/1.1\n" + host + "Content-Length: 40\nTransfer-Encoding: chunked\n\n0\n\nPOST AT/CANARY-smuggled HTTP/1.1\n" + host + "Content-Length: 0\n\n",
			"GET AT/ HTTP/1.1\n" + host + "Transfer-Encoding: chunked, identity\n\n0\n\nCANARY",
			"GET AT/ HTTP/1.1\n" + host + "Transfer-Encoding : chunked\n\n0\n\nCANARY",
			"GET AT/ HTTP/1.1\n" + host + "X-A: b\n\tCANARY-folded\n\n",
			"GET AT/ HTTP/1.1\n" + host + "\nDELETE AT/CANARY-pipelined HTTP/1.1\n" + host + "\n",
			"GET AT/ HTTP/1.1\n" + host + "Trailer: X-T\nTransfer-Encoding: chunked\n\n0\nX-T: CANARY-trailer\n\n",
			"PRI * HTTP/2.0\n\nSM\n\nCANARY",
			"GET AT/ HTTP/1.1\n" + host + "Host: CANARY-second.example\n\n",
		} {
			script += request(lines)
		}
		script = strings.ReplaceAll(script, "$(printf session:", "'$(printf session:")
		script = strings.ReplaceAll(script, "base64 -w0)", "base64 -w0)'")
		out := p.inside(s, session, env, script+"echo done\n")
		got := o.got("recorder")
		if strings.Contains(got, "CANARY") || strings.Contains(strings.ToLower(got), "content-length") || strings.Contains(strings.ToLower(got), "transfer-encoding") {
			t.Errorf("the service was sent\n%s\n%s", got, out)
		}
		for _, want := range []string{"X-Api-Version: kept-1", "Accept: kept/2", "If-None-Match: kept-3", "User-Agent: kept-4", "Range: bytes=0-9", "Cache-Control: no-cache"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is missing in\n%s", want, got)
			}
		}
		for _, want := range []string{"the header X-Evil to http://127.0.0.1", "the header Authorization", "the body of a GET to http://127.0.0.1", "POST http://127.0.0.1"} {
			if !strings.Contains(o.refusals(), want) {
				t.Errorf("%s is not recorded: %s", want, o.refusals())
			}
		}
		if dir != "" && !strings.Contains(o.refusals(), "another host") || !strings.Contains(out, "done") {
			t.Errorf("%s\n%s", o.refusals(), out)
		}
	})
}

// The repositories that clones come from can be fetched, and nothing else is asked of their host.
func TestARemoteCanBeFetchedAndNothingElse(t *testing.T) {
	netPlaces(t, func(t *testing.T, p *place, s *wall.Sandbox, dir string) {
		o := newOutside(t)
		bare := t.TempDir()
		for _, args := range [][]string{
			{"init", "-q", "--bare", bare + "/lab.git"},
			{"init", "-q", "--bare", bare + "/other.git"},
			{"-C", bare + "/lab.git", "config", "http.receivepack", "true"},
			{"-C", p.repos + "/app", "init", "-q", "-b", "main"},
			{"-C", p.repos + "/app", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"},
			{"-C", p.repos + "/app", "push", "-q", bare + "/lab.git", "main"},
		} {
			if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
		core, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
		must(t, err)
		backend := &cgi.Handler{
			Path: strings.TrimSpace(string(core)) + "/git-http-backend", Stderr: io.Discard,
			Env: []string{"GIT_PROJECT_ROOT=" + bare, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.saw("git", r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")+"\n")
			backend.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		g := o.network(dir, network.Permit{Name: "app", Host: "127.0.0.1", Port: portOf(t, server.URL), Git: &network.Remote{Path: "/lab.git"}})
		session, env := p.session(s, g, dir)
		out := p.inside(s, session, append(env, "HOME=/tmp", "GIT_TERMINAL_PROMPT=0"), strings.ReplaceAll(`
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'; unset no_proxy
echo heads $(git ls-remote URL/lab.git main 2>&1)
cd "$TMPDIR" 2>/dev/null || cd /tmp; git clone -q URL/lab.git fetched 2>&1; echo clone $?
cd fetched && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two; git push URL/lab.git HEAD:refs/heads/evil 2>&1 | tail -2
git ls-remote URL/other.git 2>&1 | tail -1
curl -s --noproxy '' -X POST -d CANARY URL/lab.git/git-receive-pack | head -c 60
curl -s --noproxy '' -X POST -d CANARY 'URL/lab.git/git-upload-pack?CANARY' | head -c 60
curl -s --noproxy '' --path-as-is 'URL/lab.git/%2e%2e/other.git/info/refs?service=git-upload-pack' | head -c 60
curl -s --noproxy '' 'URL/lab.git/info/refs?service=git-receive-pack' | head -c 60; curl -s --noproxy '' 'URL/lab.git/HEAD' | head -c 60
`, "URL", server.URL))
		got := o.got("git")
		if !strings.Contains(out, "refs/heads/main") || dir != "" && !strings.Contains(out, "clone 0") || strings.Contains(got, "receive") || strings.Contains(got, "other") ||
			strings.Contains(got, "CANARY") || strings.Contains(got, "HEAD") {
			t.Errorf("%s\nthe server was sent\n%s", out, got)
		}
		if slices.ContainsFunc(g.Env(), func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG_PARAMETERS") }) {
			t.Error("git is told to ask otherwise for a remote that needs it not")
		}
	})
}

// Git asks for a remote with TLS by plain HTTP, so that the supervisor sees what it asks for.
func TestARemoteWithTLSIsAskedForByTheSupervisor(t *testing.T) {
	o := newOutside(t)
	g := o.network("", network.Permit{Name: "app", Host: "git.example", Port: 443, Git: &network.Remote{Path: "/ada/lab.git", Secure: true}})
	i := slices.IndexFunc(g.Env(), func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG_PARAMETERS") })
	if i < 0 {
		t.Fatal(g.Env())
	}
	cmd := exec.CommandContext(t.Context(), "git", "ls-remote", "--get-url", "https://git.example/ada/lab.git")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", g.Env()[i]}
	if out, err := cmd.Output(); err != nil || string(out) != "http://git.example:443/ada/lab.git\n" {
		t.Errorf("%s, %v", out, err)
	}
}
