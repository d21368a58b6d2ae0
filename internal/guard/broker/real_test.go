package broker_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
	"claudeops/test/dockertest"
)

// clients are the docker programs of this machine: the first one on PATH, and Debian's.
func clients() []string {
	out := []string{"docker"}
	if first, err := exec.LookPath("docker"); err == nil && first != "/usr/bin/docker" {
		if _, err := os.Stat("/usr/bin/docker"); err == nil {
			out = append(out, "/usr/bin/docker")
		}
	}
	return out
}

// composers are the compose programs of this machine.
func composers(t *testing.T, d *dockertest.Daemon) [][]string {
	t.Helper()
	out := [][]string{{"docker-compose"}}
	if _, err := d.Run(t, d.Socket, "docker", "compose", "version"); err == nil {
		out = append(out, []string{"docker", "compose"})
	}
	return out
}

// service is a container with the labels of compose.
func service(t *testing.T, d *dockertest.Daemon, name, project, of string, options ...string) string {
	t.Helper()
	return d.Container(t, name, append([]string{"--label", "com.docker.compose.project=" + project, "--label", "com.docker.compose.service=" + of}, options...)...)
}

func started(t *testing.T, d *dockertest.Daemon, name string) string {
	t.Helper()
	return d.Docker(t, "inspect", "--format", "{{.State.StartedAt}} {{.State.Status}} {{.Id}}", name)
}

func TestRealClientsLookAtTier1(t *testing.T) {
	d := dockertest.Shared(t)
	d.Docker(t, "volume", "create", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1m,comment=hunter2", "shown-share")
	t.Cleanup(func() {
		_, _ = d.Run(t, d.Socket, "docker", "volume", "rm", "shown-data", "shown-share", "shown-other")
	})
	d.Container(t, "shown", "-e", "PASSWORD=hunter2", "-e", "EMPTY=", "-v", "shown-data:/data", "--log-opt", "labels=hunter2", "--mount",
		"type=volume,dst=/unused,src=shown-other,volume-driver=local,volume-opt=type=tmpfs,volume-opt=device=tmpfs,volume-opt=o=uid=0")
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier1})
	for _, docker := range clients() {
		for _, line := range []string{
			"ps -a", "images", "version", "info", "inspect shown", "logs shown", "top shown", "top shown -ef", "top shown -eo pid,args", "stats --no-stream shown",
			"events --since 1m --until 0s", "volume ls", "volume inspect shown-data shown-share", "system df -v", "network ls", "network inspect host", "image inspect " + dockertest.Image,
			"container ls", "diff shown", "system df", "port shown",
		} {
			out, err := d.Run(t, socket, docker, strings.Fields(line)...)
			if err != nil || strings.Contains(out, "hunter2") {
				t.Errorf("%s %s: %v: %s", docker, line, err, out)
			}
		}
		env, err := d.Run(t, socket, docker, "inspect", "--format", "{{json .Config.Env}}", "shown")
		if err != nil || !strings.Contains(env, `"PASSWORD=[redacted]"`) || !strings.Contains(env, "PATH=/bin") {
			t.Errorf("%s shows %s, %v", docker, env, err)
		}
		before := started(t, d, "shown")
		for _, line := range []string{"restart shown", "stop shown", "rm -f shown", "exec shown true", "cp shown:/bin/busybox -", "kill shown", "volume rm shown-data", "top shown -efx", "top shown -eo pid,environ"} {
			if out, err := d.Run(t, socket, docker, strings.Fields(line)...); err == nil || !strings.Contains(out, "refused") {
				t.Errorf("%s %s: %v: %s", docker, line, err, out)
			}
		}
		if after := started(t, d, "shown"); after != before {
			t.Errorf("%s: %s became %s", docker, before, after)
		}
	}
}

func TestLogsAndEventsAreFollowedWithoutDelay(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "talking")
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("talking")})
	for _, docker := range clients() {
		// The container says that it is ready at its start. Where the log ended at a restart, the client has nothing to print; what it
		// must not do is to hang.
		if line, ended := follows(t, d, d.Command(t.Context(), socket, docker, "logs", "-f", "--tail", "0", "talking")); line != "ready" && !ended {
			t.Errorf("%s reads %q", docker, line)
		}
	}
	if line, ended := follows(t, d, d.Command(t.Context(), socket, "docker", "events", "--filter", "container=talking", "--format", "{{.Action}}")); ended {
		t.Errorf("the events ended after %q", line)
	}
}

// follows returns the first line that a client prints while the container is restarted, or that it ended without one. Nobody can tell
// when a client has begun to listen, so the container is restarted until it has.
func follows(t *testing.T, d *dockertest.Daemon, client *exec.Cmd) (line string, ended bool) {
	t.Helper()
	out, err := client.StdoutPipe()
	if err == nil {
		err = client.Start()
	}
	must(t, err)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	heard := false
	for restarts := 0; !heard && restarts < 50; restarts++ {
		d.Docker(t, "restart", "-t", "1", "talking")
		select {
		case line, heard = <-lines:
			ended, heard = !heard, true
		default:
		}
	}
	_ = client.Process.Kill()
	for range lines {
		continue // what is left does not matter
	}
	_ = client.Wait()
	if !heard {
		t.Fatalf("%v printed nothing", client.Args)
	}
	return line, ended
}

func TestTier2RestartsTheServicesOfTheIncident(t *testing.T) {
	d := dockertest.Shared(t)
	id := service(t, d, "shop_web_1", "shop", "web")
	d.Container(t, "bystander")
	book := &ledger{}
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("web"), ledger: book})
	for _, docker := range clients() {
		for _, ref := range []string{"shop_web_1", id, id[:12], id[:5]} {
			before := started(t, d, id)
			if out, err := d.Run(t, socket, docker, "restart", "-t", "1", ref); err != nil || started(t, d, id) == before {
				t.Errorf("%s restart %s: %v: %s", docker, ref, err, out)
			}
		}
	}
	if got := book.reserved(); len(got) != 4*len(clients()) || got[0] != "web restart" {
		t.Errorf("reserved %q", got)
	}
	before := started(t, d, "bystander")
	for _, line := range []string{"restart bystander", "stop shop_web_1", "rm -f shop_web_1", "restart " + d.Docker(t, "inspect", "--format", "{{.Id}}", "bystander")[:12]} {
		if out, err := d.Run(t, socket, "docker", strings.Fields(line)...); err == nil || !strings.Contains(out, "refused") {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
	if after := started(t, d, "bystander"); after != before {
		t.Errorf("%s became %s", before, after)
	}
	d.Docker(t, "stop", "-t", "1", "shop_web_1")
	if out, err := d.Run(t, socket, "docker", "start", "shop_web_1"); err != nil {
		t.Errorf("start: %v: %s", err, out)
	}
	if got := book.reserved(); got[len(got)-1] != "web restart close" {
		t.Errorf("reserved %q", got)
	}
}

func TestWhatTheOperatorTurnedOffIsRefusedAtEveryTier(t *testing.T) {
	d := dockertest.Shared(t)
	id := service(t, d, "queue_1", "shop", "queue")
	services := []broker.Service{{Name: "queue", Off: []string{"restart", "stop"}}}
	for _, tier := range []ops.Tier{ops.Tier2, ops.Tier3} {
		socket := open(t, setup{engine: d.Socket, tier: tier, services: services})
		before := started(t, d, id)
		for _, line := range []string{"restart queue_1", "restart -t 1 " + id[:12], "stop queue_1", "rm -f queue_1"} {
			if out, err := d.Run(t, socket, "docker", strings.Fields(line)...); err == nil || !strings.Contains(out, "refused") {
				t.Errorf("%s at %s: %v: %s", line, tier, err, out)
			}
		}
		if after := started(t, d, id); after != before {
			t.Errorf("at %s, %s became %s", tier, before, after)
		}
	}
	d.Docker(t, "stop", "-t", "1", "queue_1")
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: services})
	if out, err := d.Run(t, socket, "docker", "start", "queue_1"); err != nil {
		t.Errorf("start is not off: %v: %s", err, out)
	}
}

func TestAUsedUpCooldownAndADryRunStopChanges(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "limited")
	book := &ledger{limit: 1}
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("limited"), ledger: book})
	if out, err := d.Run(t, socket, "docker", "restart", "-t", "1", "limited"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := started(t, d, "limited")
	out, err := d.Run(t, socket, "docker", "restart", "-t", "1", "limited")
	if err == nil || !strings.Contains(out, "2026-03-14T16:00:00Z") || book.refused("cooldown") != 1 {
		t.Errorf("%v: %s; %d refused", err, out, book.refused("cooldown"))
	}
	for name, o := range map[string]setup{
		"dry run": {dryRun: true},
		"lease":   {may: func() error { return fmt.Errorf("this host lost its lease") }},
		"record":  {ledger: &ledger{err: fmt.Errorf("the disk is full")}},
	} {
		o.engine, o.tier, o.services = d.Socket, ops.Tier3, named("limited")
		if out, err := d.Run(t, open(t, o), "docker", "restart", "-t", "1", "limited"); err == nil || !strings.Contains(out, "refused") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if after := started(t, d, "limited"); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// project writes a compose file with two services and starts it.
func project(t *testing.T, d *dockertest.Daemon, compose []string, name, extra string) (file string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	must(t, os.Mkdir(dir, 0o700))
	file = filepath.Join(dir, "docker-compose.yml")
	writeProject(t, file, extra)
	t.Cleanup(func() {
		_, _ = d.Run(t, d.Socket, compose[0], append(slices.Clone(compose[1:]), "-f", file, "down", "-v", "-t", "1")...)
	})
	if out, err := d.Run(t, d.Socket, compose[0], append(slices.Clone(compose[1:]), "-f", file, "up", "-d")...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func writeProject(t *testing.T, file, extra string) {
	t.Helper()
	one := "    image: " + dockertest.Image + "\n    command: [/bin/sh, -c, \"trap 'exit 0' TERM; echo ready; while :; do sleep 0.2; done\"]\n" +
		"    stop_grace_period: 1s\n    networks: [inner]\n"
	text := "version: '2.4'\nservices:\n  web:\n" + one + "    volumes: ['data:/data', '/anonymous']\n    cap_drop: [NET_RAW]\n    mem_limit: 64m\n" + extra +
		"  db:\n" + one + "networks: {inner: {}}\nvolumes: {data: {}}\n"
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestComposeReplacesNothing(t *testing.T) {
	d := dockertest.Shared(t)
	for i, compose := range composers(t, d) {
		t.Run(strings.Join(compose, " "), func(t *testing.T) {
			name := fmt.Sprintf("stack%d", i)
			file := project(t, d, compose, name, "    environment: {MODE: a}\n")
			through := func(socket string, args ...string) (string, error) {
				return d.Run(t, socket, compose[0], append(append(slices.Clone(compose[1:]), "-f", file), args...)...)
			}
			container := func(of string) string {
				return d.Docker(t, "ps", "-q", "--no-trunc", "--filter", "label=com.docker.compose.project="+name, "--filter", "label=com.docker.compose.service="+of)
			}
			web, db := container("web"), container("db")
			first := open(t, setup{engine: d.Socket, tier: ops.Tier1})
			second := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("web")})
			for _, args := range [][]string{{"ps"}, {"logs", "web"}, {"top"}} {
				if out, err := through(first, args...); err != nil {
					t.Errorf("%q: %v: %s", args, err, out)
				}
			}
			before := started(t, d, web)
			if out, err := through(second, "restart", "-t", "1", "web"); err != nil || started(t, d, web) == before {
				t.Errorf("restart: %v: %s", err, out)
			}
			if out, err := through(second, "up", "-d", "web"); err != nil || container("web") != web {
				t.Errorf("up without a change: %v: %s", err, out)
			}
			if out, err := through(second, "up", "-d", "--force-recreate", "web"); err == nil || container("web") != web {
				t.Errorf("a recreation at Tier 2: %v: %s", err, out)
			}
			before = started(t, d, db)
			if out, _ := through(second, "restart", "-t", "1", "db"); !strings.Contains(out, "refused") || started(t, d, db) != before {
				t.Errorf("the other service was restarted: %s", out)
			}

			book := &ledger{}
			third := open(t, setup{engine: d.Socket, tier: ops.Tier3, ledger: book, services: []broker.Service{
				{Name: "web", Redeployed: "the supervisor's action redeploy of web makes its container again"},
			}})
			for i, args := range [][]string{{"up", "-d", "--force-recreate", "web"}, {"up", "-d", "web"}, {"rm", "-fs", "web"}, {"down", "-t", "1"}, {"run", "--rm", "web", "true"}} {
				writeProject(t, file, fmt.Sprintf("    environment: {MODE: b%d}\n", i))
				out, err := through(third, args...)
				if !strings.Contains(out, "action redeploy of web") && (args[0] != "rm" && args[0] != "down" || err == nil && !strings.Contains(out, "refused")) {
					t.Errorf("%q: %v: %s", args, err, out)
				}
				if args[0] == "down" && container("web") != web {
					t.Errorf("down left the service down: %s", out)
				}
				if now := d.Docker(t, "ps", "-aq", "--no-trunc", "--filter", "label=com.docker.compose.project="+name, "--filter", "label=com.docker.compose.service=web"); now != web {
					t.Errorf("%q: %s became %s", args, web, now)
				}
			}
			if out, err := through(third, "start", "web"); err != nil || container("web") != web {
				t.Errorf("start: %v: %s", err, out)
			}
			if container("db") != db {
				t.Error("the other service was replaced")
			}
		})
	}
}

// snapshot is everything that a request could change.
func snapshot(t *testing.T, d *dockertest.Daemon) string {
	t.Helper()
	var b strings.Builder
	ids := strings.Fields(d.Docker(t, "ps", "-aq", "--no-trunc"))
	slices.Sort(ids)
	for _, id := range ids {
		b.WriteString(d.Docker(t, "inspect", "--format", "{{.Id}} {{.Name}} {{.State.Status}} {{.State.StartedAt}} {{json .HostConfig}} {{json .Config}} {{json .Mounts}} {{json .ExecIDs}}", id) + "\n")
		for line := range strings.Lines(d.Docker(t, "diff", id)) {
			b.WriteString(line)
		}
	}
	for _, args := range [][]string{{"volume", "ls", "-q"}, {"images", "-aq", "--no-trunc"}, {"images", "--format", "{{.Repository}}:{{.Tag}}"}, {"network", "ls", "-q", "--no-trunc"}, {"plugin", "ls", "-q"}} {
		b.WriteString(d.Docker(t, args...) + "\n")
	}
	b.WriteString(d.Docker(t, "info", "--format", "{{.Swarm.LocalNodeState}}"))
	return b.String()
}

func TestForbiddenRequestsTakeNoEffect(t *testing.T) {
	d := dockertest.Shared(t)
	web := service(t, d, "web", "shop", "web", "-v", "web-data:/data")
	other := d.Container(t, "other", "-v", "other-data:/data", "-e", "PASSWORD=hunter2")
	d.Container(t, "ended")
	d.Docker(t, "stop", "-t", "1", "ended")
	d.Docker(t, "volume", "create", "loose")
	t.Cleanup(func() { _, _ = d.Run(t, d.Socket, "docker", "volume", "rm", "web-data", "other-data", "loose") })
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier3, services: named("web")})
	before := snapshot(t, d)
	tried := 0
	for _, c := range forbidden(web, other) {
		tried++
		if status, text := call(t, socket, c.method, c.uri, c.body); status < 400 {
			t.Errorf("%s %s %s is allowed: %d %.200s", c.method, c.uri, c.body[max(0, len(c.body)-200):], status, text)
		} else if strings.Contains(text, "hunter2") {
			t.Errorf("%s %s tells a secret", c.method, c.uri)
		}
	}
	for _, text := range smuggled(web, other) {
		tried++
		if status := raw(t, socket, text); status != 0 && status < 400 {
			t.Errorf("%.120q is allowed: %d", text, status)
		}
	}
	if after := snapshot(t, d); after != before {
		t.Errorf("the engine changed:\n%s\nbecame\n%s", before, after)
	}
	if tried < 60 {
		t.Errorf("only %d requests", tried)
	}
	t.Logf("%d forbidden requests", tried)
}

type attempt struct{ method, uri, body string }

func forbidden(web, other string) []attempt {
	out := []attempt{
		{"POST", "/containers/prune", ""},
		{"POST", "/v1.41/images/prune", ""},
		{"POST", "/v1.41/volumes/prune", ""},
		{"POST", "/v1.41/networks/prune", ""},
		{"POST", "/build/prune", ""},
		{"POST", "/v1.41/system/prune", ""},
		{"DELETE", "/volumes/web-data?force=1", ""},
		{"DELETE", "/v1.41/volumes/loose", ""},
		{"POST", "/volumes/create", `{"Name":"host","DriverOpts":{"type":"none","o":"bind","device":"/"}}`},
		{"POST", "/volumes/create", `{"Name":"plain"}`},
		{"PUT", "/volumes/web-data", `{}`},
		{"POST", "/containers/web/exec", `{"Cmd":["touch","/x"],"AttachStdout":true}`},
		{"POST", "/v1.41/containers/" + web + "/exec", `{"Cmd":["touch","/x"]}`},
		{"POST", "/exec/abc/start", `{}`},
		{"POST", "/containers/web/attach?stream=1&stdin=1", ""},
		{"GET", "/containers/web/attach/ws?stream=1", ""},
		{"POST", "/session", ""},
		{"POST", "/grpc", ""},
		{"GET", "/containers/web/archive?path=/bin", ""},
		{"HEAD", "/containers/web/archive?path=/bin", ""},
		{"PUT", "/containers/web/archive?path=/", "{}"},
		{"POST", "/containers/web/copy", `{"Resource":"/bin"}`},
		{"GET", "/containers/other/export", ""},
		{"GET", "/images/" + dockertest.Image + "/get", ""},
		{"GET", "/images/get?names=" + dockertest.Image, ""},
		{"POST", "/images/load", "{}"},
		{"POST", "/images/create?fromSrc=-&repo=claudeops-test&tag=1", "{}"},
		{"POST", "/images/create?fromImage=evil/image&tag=1", ""},
		{"POST", "/images/" + dockertest.Image + "/tag?repo=web&tag=2", ""},
		{"POST", "/images/" + dockertest.Image + "/push", ""},
		{"DELETE", "/images/" + dockertest.Image + "?force=1", ""},
		{"POST", "/commit?container=web&repo=evil", "{}"},
		{"POST", "/build?remote=https://example.org/x.git", ""},
		{"POST", "/plugins/pull?remote=evil/plugin", "[]"},
		{"GET", "/plugins/privileges?remote=evil/plugin", ""},
		{"POST", "/swarm/init", `{"ListenAddr":"127.0.0.1:2377"}`},
		{"POST", "/secrets/create", `{"Name":"x","Data":"eA=="}`},
		{"GET", "/secrets", ""},
		{"GET", "/configs", ""},
		{"POST", "/services/create", `{"Name":"x"}`},
		{"POST", "/networks/create", `{"Name":"evil","Driver":"host"}`},
		{"DELETE", "/networks/host", ""},
		{"POST", "/networks/host/connect", `{"Container":"web"}`},
		{"POST", "/networks/none/disconnect", `{"Container":"other","Force":true}`},
		{"POST", "/auth", `{"username":"a","password":"b"}`},
		{"POST", "/containers/web/update", `{"Memory":0,"PidsLimit":-1}`},
		{"POST", "/containers/web/kill?signal=KILL", ""},
		{"POST", "/containers/web/pause", ""},
		{"POST", "/containers/web/resize?h=1&w=1", ""},
		{"POST", "/containers/web/checkpoints", `{"CheckpointID":"x"}`},
		{"POST", "/containers/web/start?checkpoint=x&checkpoint-dir=/tmp", ""},
		{"POST", "/containers/web/start", `{"Privileged":true,"Binds":["/:/host"]}`},
		{"POST", "/v1.23/containers/web/start", `{"HostConfig":{"Binds":["/:/host"]}}`},
		{"POST", "/v1.12/containers/web/restart", ""},
		{"DELETE", "/containers/web", ""},
		{"DELETE", "/v1.41/containers/web?force=1", ""},
		{"POST", "/containers/web/rename?name=web", ""},
		{"POST", "/networks/bridge/connect", `{"Container":"web"}`},
		{"POST", "/images/create?fromImage=claudeops-test&tag=1", ""},
		{"DELETE", "/containers/web?v=1&force=1", ""},
		{"DELETE", "/containers/web?link=1", ""},
		{"DELETE", "/containers/web?v=0&v=1&force=1", ""},
		{"POST", "/containers/web/rename?name=other2", ""},
		{"POST", "/containers/web/rename?name=claudeops", ""},
		{"GET", "/containers/other/logs?stdout=1&details=1", ""},
		{"GET", "/containers/other/top?ps_args=eww", ""},
		{"POST", "/libpod/containers/web/exec", "{}"},
		{"GET", "/v4.3.1/libpod/containers/web/json", ""},
		{"POST", "/containers/we%62/../other/restart", ""},
		{"POST", "/containers/web%2F..%2Fother/restart", ""},
		{"POST", "/containers/%256fther/restart", ""},
		{"POST", "//containers/other/restart", ""},
		{"POST", "/containers//other/restart", ""},
		{"POST", "/containers/create/", "{}"},
		{"PATCH", "/containers/web/restart", ""},
		{"POST", "/CONTAINERS/other/restart", ""},
	}
	for _, ref := range []string{"other", other, other[:12], other[:6], "%6Fther"} {
		for _, act := range []string{"restart", "stop", "start", "rename?name=web2", "kill", "unpause"} {
			out = append(out, attempt{"POST", "/v1.41/containers/" + ref + "/" + act, ""})
		}
		out = append(out, attempt{"DELETE", "/v1.41/containers/" + ref + "?force=1", ""})
	}
	for _, body := range []string{
		"", "null", "{}", "[]", `{"Image":"claudeops-test:1"}`, `{"Image":"claudeops-test:1","Labels":{"com.docker.compose.service":"web"},"HostConfig":{"Privileged":true}}`,
	} {
		out = append(out, attempt{"POST", "/v1.41/containers/create?name=web2", body}, attempt{"POST", "/containers/create", body})
	}
	return out
}

// smuggled are requests that an HTTP client would not send.
func smuggled(web, other string) []string {
	const end = "\r\nHost: docker\r\n"
	big := strings.Repeat(" ", 2<<20)
	hidden := "POST /containers/" + other + "/restart HTTP/1.1" + end + "Content-Length: 0\r\n\r\n"
	return []string{
		"POST /containers/create?name=web HTTP/1.1" + end + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST /containers/web/start HTTP/1.1" + end + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden,
		"POST /containers/web/start HTTP/1.1" + end + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"POST /containers/web/start HTTP/1.1" + end + "Content-Length: 4\r\nContent-Length: 0\r\n\r\n" + hidden,
		"POST /containers/web/start HTTP/1.1" + end + "Content-Length: -1\r\n\r\n",
		fmt.Sprintf("POST /containers/create?name=web HTTP/1.1%sContent-Length: %d\r\n\r\n%s", end, len(big), big),
		"POST /containers/web/attach?stream=1 HTTP/1.1" + end + "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
		"GET /containers/web/json HTTP/1.1" + end + "Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"POST /containers/web/restart HTTP/1.1" + end + "Upgrade: tcp\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n",
		"POST http://docker/containers/" + other + "/restart HTTP/1.1" + end + "Content-Length: 0\r\n\r\n",
		"CONNECT /containers/" + other + " HTTP/1.1" + end + "\r\n",
		"POST /containers/web\\..\\" + other + "/restart HTTP/1.1" + end + "Content-Length: 0\r\n\r\n",
		"POST /containers/" + web + "/start;x/../restart HTTP/1.1" + end + "Content-Length: 0\r\n\r\n",
		"POST /containers/" + other + "/restart?t=1;t=2 HTTP/1.1" + end + "Content-Length: 0\r\n\r\n",
		"POST /containers/" + other + "/restart HTTP/1.0\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /containers/web/json HTTP/1.1" + end + "X: " + strings.Repeat("a", 128<<10) + "\r\n\r\n",
		"POST /containers/web/stop%00 HTTP/1.1" + end + "Content-Length: 0\r\n\r\n",
	}
}

func TestTwoEnvironmentsCannotTouchEachOther(t *testing.T) {
	d := dockertest.Shared(t)
	a, b := service(t, d, "a-web", "a", "web"), service(t, d, "b-web", "b", "web")
	mine := func(name string) []broker.Service { return []broker.Service{{Name: "web", Names: []string{name}}} }
	first := open(t, setup{engine: d.Socket, tier: ops.Tier3, services: mine("a-web"), others: mine("b-web")})
	second := open(t, setup{engine: d.Socket, tier: ops.Tier3, services: mine("b-web"), others: mine("a-web")})
	for _, tt := range []struct{ socket, own, foreign, name string }{{first, a, b, "b-web"}, {second, b, a, "a-web"}} {
		for _, ref := range []string{tt.foreign, tt.foreign[:12], tt.name} {
			before := started(t, d, tt.foreign)
			for _, act := range []string{"restart", "stop", "start"} {
				if status, text := call(t, tt.socket, "POST", "/containers/"+ref+"/"+act, ""); status != 403 || !strings.Contains(text, "another environment") {
					t.Errorf("%s %s: %d %s", act, ref, status, text)
				}
			}
			if status, _ := call(t, tt.socket, "DELETE", "/containers/"+ref+"?force=1", ""); status != 403 {
				t.Errorf("remove %s: %d", ref, status)
			}
			if after := started(t, d, tt.foreign); after != before {
				t.Errorf("%s became %s", before, after)
			}
		}
		if status, text := call(t, tt.socket, "POST", "/containers/"+tt.own+"/restart?t=1", ""); status != 204 {
			t.Errorf("its own: %d %s", status, text)
		}
	}
	// Without names in the inventory, a service label that two projects use belongs to neither.
	open := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("web")})
	if status, text := call(t, open, "POST", "/containers/"+a+"/restart?t=1", ""); status != 403 || !strings.Contains(text, "alias") {
		t.Errorf("an ambiguous service: %d %s", status, text)
	}
}

func TestEveryAPIVersionIsJudgedAlike(t *testing.T) {
	d := dockertest.Shared(t)
	d.Container(t, "versioned")
	socket := open(t, setup{engine: d.Socket, tier: ops.Tier2, services: named("versioned")})
	for _, v := range []string{"", "/v1.40", "/v1.41"} {
		if status, _ := call(t, socket, "GET", v+"/containers/versioned/json", ""); status != 200 {
			t.Errorf("%q: inspect %d", v, status)
		}
		if status, _ := call(t, socket, "POST", v+"/containers/versioned/restart?t=1", ""); status != 204 {
			t.Errorf("%q: restart %d", v, status)
		}
		if status, _ := call(t, socket, "POST", v+"/containers/versioned/stop", ""); status != 403 {
			t.Errorf("%q: stop %d", v, status)
		}
	}
	for _, v := range []string{"/v1.24", "/v1.39"} {
		if status, text := call(t, socket, "GET", v+"/containers/versioned/json", ""); status != 400 || !strings.Contains(text, "before 1.40") {
			t.Errorf("%q: %d %s", v, status, text)
		}
	}
	// A newer version than the engine's is the engine's to refuse; it is judged before.
	for _, v := range []string{"/v1.42", "/v1.43", "/v1.44", "/v1.45", "/v1.46", "/v1.47"} {
		if status, text := call(t, socket, "GET", v+"/version", ""); status != 400 || !strings.Contains(text, "too new") {
			t.Errorf("%q: %d %s", v, status, text)
		}
		if status, _ := call(t, socket, "POST", v+"/containers/versioned/stop", ""); status != 403 {
			t.Errorf("%q: stop %d", v, status)
		}
	}
}
