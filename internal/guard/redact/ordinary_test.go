package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/guard/redact"
)

// ordinary makes lines of logs and outputs that hold no secret.
type ordinary struct{ r *rand.Rand }

func (o ordinary) n(limit int) int { return o.r.IntN(limit) }

func (o ordinary) pick(of ...string) string { return of[o.n(len(of))] }

func (o ordinary) hex(n int) string {
	b := make([]byte, (n+1)/2)
	for i := range b {
		b[i] = byte(o.n(256))
	}
	return hex.EncodeToString(b)[:n]
}

func (o ordinary) base64(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(o.n(256))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func (o ordinary) uuid() string {
	return o.hex(8) + "-" + o.hex(4) + "-4" + o.hex(3) + "-a" + o.hex(3) + "-" + o.hex(12)
}

func (o ordinary) ip() string {
	return fmt.Sprintf("%d.%d.%d.%d", 1+o.n(222), o.n(256), o.n(256), 1+o.n(254))
}

func (o ordinary) time() string {
	return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02d.%03dZ", 1+o.n(12), 1+o.n(28), o.n(24), o.n(60), o.n(60), o.n(1000))
}

func (o ordinary) syslog() string {
	return fmt.Sprintf("%s %2d %02d:%02d:%02d %s", o.pick("Jan", "Mar", "Jul", "Nov"), 1+o.n(28), o.n(24), o.n(60), o.n(60), o.pick("web-1", "db", "ie01"))
}

func (o ordinary) path() string {
	return "/" + o.pick("api/v1/users", "assets/app", "login", "healthz", "items", "auth/callback", "reset-password", "oauth/token") + o.pick("", "/"+fmt.Sprint(o.n(9999)), "?page="+fmt.Sprint(o.n(40)), "?q=token+ring", "?id="+o.uuid())
}

// lines are the makers of one line each.
func (o ordinary) lines() []func() string {
	return slices.Concat(o.services(), o.hosts(), o.developers(), o.honest())
}

func (o ordinary) services() []func() string {
	f := fmt.Sprintf
	return []func() string{
		func() string {
			return f(`%s - - [%02d/Mar/2026:11:%02d:%02d +0000] "%s %s HTTP/1.1" %d %d "https://example.org%s" "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0"`,
				o.ip(), 1+o.n(28), o.n(60), o.n(60), o.pick("GET", "POST", "HEAD"), o.path(), 200+o.n(300), o.n(99999), o.path(), 90+o.n(40), 90+o.n(40))
		},
		func() string {
			return f(`2026/03/14 11:%02d:%02d [error] %d#%d: *%d connect() failed (111: Connection refused) while connecting to upstream, client: %s, server: example.org, request: "GET %s HTTP/2.0", upstream: "http://%s:8080%s", host: "example.org"`,
				o.n(60), o.n(60), o.n(9999), o.n(99), o.n(99999), o.ip(), o.path(), o.ip(), o.path())
		},
		func() string {
			return f(`%s UTC [%d] %s`, o.time(), o.n(99999), o.pick(
				`LOG:  checkpoint complete: wrote 512 buffers (3.1%); 0 WAL file(s) added, 0 removed, 1 recycled; write=51.2 s, sync=0.01 s`,
				`ERROR:  duplicate key value violates unique constraint "users_email_key"`, `DETAIL:  Key (email)=(a@example.org) already exists.`,
				`FATAL:  password authentication failed for user "app"`, `LOG:  connection authorized: user=app database=app SSL enabled (protocol=TLSv1.3, cipher=TLS_AES_256_GCM_SHA384, bits=256)`,
				`STATEMENT:  SELECT id, password_hash FROM users WHERE token_id = $1`, `LOG:  autovacuum: VACUUM ANALYZE public.session_tokens`))
		},
		func() string {
			return f(`time="%s" level=%s msg="%s" container=%s image=sha256:%s`, o.time(), o.pick("info", "warning", "error"),
				o.pick("starting container", "health check passed", "token refreshed", "pulling layer", "secret mounted"), o.hex(64), o.hex(64))
		},
		func() string {
			return f(`{"level":"%s","ts":%d.%d,"caller":"server/server.go:%d","msg":"%s","request_id":"%s","duration_ms":%d}`,
				o.pick("info", "warn"), 1700000000+o.n(9999999), o.n(999), o.n(999), o.pick("request finished", "token expired", "no password given", "bad credentials"), o.uuid(), o.n(900))
		},
		func() string {
			return f(`%s   %s   "%s"   %d hours ago   Up %d hours (healthy)   0.0.0.0:%d->%d/tcp   %s`, o.hex(12), o.pick("nginx:1.27", "postgres:17", "redis:7-alpine"),
				o.pick("docker-entrypoint.s…", "/bin/sh -c 'node a.js'"), 1+o.n(40), 1+o.n(40), 8000+o.n(999), 80, o.pick("web", "db", "cache"))
		},
		func() string {
			return f(`%s@sha256:%s: Pulling from library/%s`, o.pick("nginx", "postgres"), o.hex(64), o.pick("nginx", "postgres"))
		},
		func() string {
			return f(`I0314 11:%02d:%02d.%06d       1 %s.go:%d] "%s" pod="kube-system/%s-%s-%s" uid="%s"`, o.n(60), o.n(60), o.n(999999), o.pick("reflector", "kubelet", "leaderelection"),
				o.n(999), o.pick("SyncLoop UPDATE", "Caches populated", "Attempting to acquire leader lease"), o.pick("coredns", "metrics-server"), o.hex(10), o.hex(5))
		},
		func() string {
			return f(`%s:M 14 Mar 2026 11:%02d:%02d.%03d * %s`, fmt.Sprint(1+o.n(9)), o.n(60), o.n(60), o.n(999), o.pick("Background saving started by pid 71", "DB saved on disk", "Ready to accept connections tcp"))
		},
		func() string {
			return f(`level=info ts=%s caller=main.go:%d component=%s msg="%s" version="(version=2.51.0, branch=HEAD, revision=%s)"`, o.time(), o.n(999), o.pick("tsdb", "web"), o.pick("Server is ready", "WAL segment loaded"), o.hex(40))
		},
	}
}

func (o ordinary) hosts() []func() string {
	f := fmt.Sprintf
	return []func() string{
		func() string {
			return f(`%s systemd[1]: %s`, o.syslog(), o.pick("Started Daily apt download activities.", "docker.service: Main process exited, code=exited, status=1/FAILURE",
				"Starting systemd-ask-password-console.path…", "Reached target Multi-User System.", "session-c1.scope: Deactivated successfully.", "Listening on GnuPG cryptographic agent and passphrase cache."))
		},
		func() string {
			return f(`%s sshd[%d]: %s from %s port %d ssh2%s`, o.syslog(), o.n(99999), o.pick("Failed password for invalid user admin", "Accepted publickey for root", "Accepted password for op"),
				o.ip(), 1024+o.n(60000), o.pick("", ": ED25519 SHA256:"+o.base64(32)[:43]))
		},
		func() string {
			return f(`%s sudo: pam_unix(sudo:auth): authentication failure; logname=op uid=1000 euid=0 tty=/dev/pts/0 ruser=op rhost=  user=op`, o.syslog())
		},
		func() string {
			return f(`[%6d.%06d] %s`, o.n(99999), o.n(999999), o.pick("EXT4-fs (sda1): mounted filesystem "+o.uuid()+" r/w with ordered data mode",
				"BUG: unable to handle page fault for address: 0x"+o.hex(16), "RIP: 0010:native_queued_spin_lock_slowpath+0x6b/0x1f0", "Code: "+strings.TrimSpace(strings.Repeat(o.hex(2)+" ", 20)),
				"usb 1-1: New USB device found, idVendor=1d6b, idProduct=0002", "audit: type=1400 apparmor=\"DENIED\" operation=\"open\" profile=\"docker-default\"",
				"Key type dns_resolver registered", "Loaded X.509 cert 'Debian Secure Boot CA: "+o.hex(40)+"'", "out_of_memory+0x2a/0x3b0 R13: 0000"+o.hex(12)))
		},
		func() string {
			return f("%-20s %8d %8d %8d %3d%% %s", o.pick("/dev/sda1", "tmpfs", "overlay"), o.n(999999), o.n(999999), o.n(999999), o.n(100), o.pick("/", "/run", "/var/lib/docker/overlay2/"+o.hex(64)+"/merged"))
		},
		func() string {
			return f("%-8s %6d %4.1f %4.1f %8d %6d ?  Ss  Mar14  %d:%02d %s", o.pick("root", "op"), o.n(99999), float64(o.n(999))/10, float64(o.n(999))/10, o.n(999999), o.n(99999), o.n(9), o.n(60),
				o.pick("/usr/sbin/sshd -D", "postgres: app app 10.0.0.3(5123) idle", "mysqld --datadir=/var/lib/mysql -u mysql", "docker run -u 1000:1000 -p 8080:80 web", "redis-server *:6379"))
		},
		func() string {
			return f("%s  %s", o.hex(64), o.pick("./app.tar.gz", "vmlinuz", "checksums.txt"))
		},
		func() string { return f("%s  %s", o.hex(32), o.pick("./app.tar.gz", "-")) },
		func() string { return f("%s%s", o.hex(40), o.pick("\trefs/heads/main", " commit", "\tHEAD")) },
		func() string { return o.base64(30 + o.n(60)) },
		func() string { return f(`<img src="data:image/png;base64,iVBORw0KGgo%s">`, o.base64(200+o.n(600))) },
		func() string {
			return f("%08x: %s  ................", o.n(99999)*16, strings.TrimSpace(f("%x %x %x %x", o.n(65536), o.n(65536), o.n(65536), o.n(65536))))
		},
	}
}

func (o ordinary) developers() []func() string {
	f := fmt.Sprintf
	return []func() string{
		func() string {
			return o.pick(f("goroutine %d [chan receive, %d minutes]:", o.n(999), o.n(99)), f("main.(*server).authToken(0xc%s, {0x%s, 0x%s})", o.hex(9), o.hex(6), o.hex(2)),
				f("\t/usr/local/go/src/net/http/server.go:%d +0x%s", o.n(4000), o.hex(3)), f("created by net/http.(*Server).Serve in goroutine %d", o.n(99)))
		},
		func() string {
			return o.pick(f("--- PASS: TestPasswordReset_%d (0.%02ds)", o.n(99), o.n(99)), f("ok  \tclaudeops/internal/guard\t%d.%03ds", o.n(99), o.n(999)), f("=== RUN   TestToken%d/secret_is_hidden", o.n(99)))
		},
		func() string {
			return f("commit %s (HEAD -> main)", o.hex(40))
		},
		func() string {
			return f("%s %s", o.hex(7+o.n(3)), o.pick("Rotate the token before it expires", "Fix: password field keeps its value", "api: return 401 without credentials", "Rename secret to key"))
		},
		func() string {
			return f("index %s..%s 100644", o.hex(7), o.hex(7))
		},
		func() string {
			return o.pick("func (s *Store) Token(ctx context.Context) (string, error) {", "if password == \"\" { return errEmpty }", "const token = os.Getenv(\"API_TOKEN\")",
				"password := r.FormValue(\"password\")", "var secret [32]byte", "token: string;", "  password: string | null", "PASSWORD=${DB_PASSWORD:?missing}", "--password-file /run/secrets/db",
				"export TOKEN=$(cat /run/token)", "auth: basic", "<input type=\"password\" name=\"password\">", "kind: Secret", "secretName: web-tls", "tokens=1200 pass=true")
		},
		func() string {
			return f(`        "resolved": "https://registry.npmjs.org/%s/-/%s-%d.tgz", "integrity": "sha512-%s"`, o.pick("react", "vite"), o.pick("react", "vite"), o.n(9), o.base64(64))
		},
		func() string {
			return f("%s v%d.%d.%d h1:%s", o.pick("golang.org/x/sys", "github.com/spf13/cobra"), o.n(3), o.n(40), o.n(9), o.base64(32))
		},
		func() string {
			return f("npm warn deprecated %s@%d.0.%d: use another one", o.pick("rimraf", "har-validator", "request"), o.n(9), o.n(9))
		},
		func() string {
			return f(`Traceback: File "/srv/app/auth.py", line %d, in check_password: raise InvalidToken(%q)`, o.n(900), o.pick("expired", "signature"))
		},
		func() string {
			return f(`%s  INFO %d --- [nio-8080-exec-%d] o.s.s.a.%s : Using generated security filter`, o.time(), o.n(99999), o.n(99), o.pick("TokenFilter", "PasswordEncoder"))
		},
		func() string {
			return f(`{"type":"assistant","message":{"id":"msg_01%s","model":"claude-haiku","usage":{"input_tokens":%d,"output_tokens":%d}},"session_id":"%s"}`, o.hex(22), o.n(999), o.n(999), o.uuid())
		},
		func() string {
			return f("traceparent: 00-%s-%s-01", o.hex(32), o.hex(16))
		},
		func() string {
			return f(`ETag: "%s"; X-Request-Id: %s; Content-Length: %d`, o.hex(32), o.uuid(), o.n(99999))
		},
	}
}

// honest are lines with the names of secrets and words that are none: what was asked for, and what came of it.
func (o ordinary) honest() []func() string {
	f := fmt.Sprintf
	name := func() string {
		return o.pick("password", "PASSWORD", "pass", "DB_PASS", "pw", "DB_PW", "token", "API_KEY", "STRIPE_KEY", "AUTH", "REDIS_AUTH", "auth", "requirepass", "secret")
	}
	outcome := func() string {
		return o.pick("refused", "denied", "rejected", "failed", "invalid", "incorrect", "missing", "expired", "required", "disabled", "unset", "ok")
	}
	return []func() string{
		func() string { return f(`level=warn msg="login" %s=%s user=app%d`, name(), outcome(), o.n(99)) },
		func() string { return f("%s: %s", name(), outcome()) },
		func() string { return f(`{"check":"login","%s":"%s","attempt":%d}`, name(), outcome(), o.n(9)) },
		func() string { return f("dial tcp %s:%d: connect: connection refused", o.ip(), 1024+o.n(60000)) },
		func() string { return f("AUTH %s for user app%d after %d ms", outcome(), o.n(99), o.n(999)) },
		func() string {
			return o.pick("ERR AUTH <password> called without any password configured for the default user.", "NOAUTH Authentication required.", "250-AUTH PLAIN LOGIN CRAM-MD5",
				"334 the server refused AUTH LOGIN", "(error) WRONGPASS invalid username-password pair", "the requirepass directive is not set", "set requirepass before you open the port",
				"requirepass is empty", "rootpw is not set in slapd.conf", "-----END PRIVATE KEY----- has no beginning", "WARNING: password file \"/root/.pgpass\" has group or world access",
				"PGPASSFILE=/run/pgpass", "SSH_AUTH_SOCK=/tmp/ssh-XXXX1a2b/agent.71", "PASS", "ok: 12 pass, 0 fail", "pass: 12")
		},
		func() string {
			return f("%s_key%s%s", o.pick("primary", "sort", "cache", "partition", "public", "routing"), o.pick("=", ": "), o.pick("users:"+fmt.Sprint(o.n(9999)), o.uuid(), o.hex(16), "id"))
		},
		func() string {
			return o.pick("TLS_KEY=/etc/ssl/private/web1.key", "ssl_certificate_key: /etc/nginx/tls/web-1.pem", "SIGN_KEY=web-signing.pem", "metrics_key=web-1-requests", "PIN_KEY=release",
				"CREATE INDEX orders_2024_key ON orders", "tls-key: ./certs/server2.key", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
		},
		func() string { return f("store.go:%d:%d: undefined: pw", 5432, o.n(99)) },
		func() string {
			return f("%s:5432:5432/tcp -> %s:5432", o.ip(), o.ip())
		},
		func() string { return "-----END CERTIFICATE-----" },
		func() string { return f("%s\n-----END CERTIFICATE-----", o.base64(48)) },
		func() string {
			return o.pick("age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq", "the image of AGE-SECRET-KEY files", "dp.st.example", "dp.pt. is what personal tokens begin with")
		},
	}
}

// TestCorpusOfOrdinaryLines prints how many of 10,000 lines without a secret are changed.
func TestCorpusOfOrdinaryLines(t *testing.T) {
	const most = 5
	o := ordinary{rand.New(rand.NewPCG(5, 6))}
	makers := o.lines()
	secrets := configured(rand.New(rand.NewPCG(7, 8)))
	for name, r := range map[string]*redact.Redactor{"without secrets": redact.New(nil), "with secrets": redact.New(secrets)} {
		st := r.Stream()
		changed := 0
		for i := range 10_000 {
			line := makers[i%len(makers)]()
			if got := st.Line(line); got != line {
				changed++
				t.Logf("  %s", got)
			}
		}
		t.Logf("ordinary lines, %s: %d of 10000 changed", name, changed)
		if changed > most {
			t.Errorf("%d of 10,000 ordinary lines were changed, want at most %d", changed, most)
		}
	}
}
