package scan

import (
	"os/exec"
	"strings"
	"testing"
)

func TestAwkAndSedAndJqLookOnly(t *testing.T) {
	for program, want := range map[string]bool{
		`{print $1}`:                                true,
		`$5 > 80 {print $1, $5}`:                    true,
		`/error|warn/ {n++} END {print n/NR}`:       true,
		`{ if ($1 > 5) print $0; else print "low"}`: true,
		`{print $1 > "f"}`:                          false,
		"{print $1,\n$2 > \"f\"}":                   false,
		`BEGIN{if (1) /"/ ; system("id") # "}`:      false,
		`BEGIN{a $/"/ ; system("id") # "}`:          false,
		`BEGIN{ARGV[1]="x"}`:                        false,
		`{print | "sh"}`:                            false,
		`/[/]x > "f"/`:                              false,
		`/[[:digit:]]+[^a-z]/ {print}`:              true,
		`/^\[error\]/ {print}`:                      true,
		`/[]/ "]/{system("id");z=/"/}`:              false,
		`/[^]/ "]/{print "id" | "sh";z=/"/}`:        false,
		`/[[:alpha:]/ "]/{print > "f";z=/"/}`:       false,
		`/[[.a.]/ "]/`:                              false,
		`/[\]/ "]/`:                                 false,
		`/[a"]/`:                                    false,
	} {
		if got := Awk(program); (got == "") != want {
			t.Errorf("awk %q: %q", program, got)
		}
	}
	for script, want := range map[string]bool{
		`s/a/b/g;2{p;q}`: true, `/x/,$p`: true, `s/[^/]*$//`: true, `s/[^]]*//`: true, `s/[[:space:]]+/ /g`: true, `a \    text;`: true, `y/abc/xyz/`: true, "a\\\ntext": true,
		`s/a/b/e`: false, `1e id`: false, `w /x`: false, `r /x`: false, `y/[/]/;e id;#/`: false, "a foo\\\\\ne id": false, "a foo\\ \ne id": false,
		`s/[\]/]e id/x/`: false,
	} {
		if Sed(script) != want {
			t.Errorf("sed %q: %v", script, !want)
		}
	}
	for filter, want := range map[string]bool{
		`.env`: true, `.a | select(.env == "x")`: true, `{env: .x}`: true, `"env"`: true, `.[$env]`: true,
		`env`: false, `1-env`: false, `"\(env)"`: false, `$ENV`: false, `[env]`: false, `import "x" as y; .`: false, `"\(`: false, `"\(env`: false,
		`"\(.a) \("b" + (.c|tostring))"`: true, `select(.name=="env")`: true, `{"a": 1, load: 2}`: true, `.items[] | select(.load > 1)`: true,
		`"\("(")" | env | "x)"`: false, `"\("((")" , $ENV.HOME , "x))"`: false, `{"a":"\("(")", "b": env.SECRET, "c":"x)"}`: false,
		`strload("/x")`: false, `load_str("/x")`: false, `.a) | env | (.b`: false, `..env`: false, `eval("x")`: false, `.[env:]`: false,
	} {
		if got := Jq(filter); (got == "") != want {
			t.Errorf("jq %q: %q", filter, got)
		}
	}
}

func TestSQLAndRedisLookOnly(t *testing.T) {
	words := &Words{Functions: map[string]bool{"COUNT": true, "IN": true, "SELECT": true, "FROM": true}, Pragmas: map[string]bool{"USER_VERSION": true, "TABLE_INFO(": true}}
	for statement, want := range map[string]bool{
		`SELECT count(*) FROM t WHERE a IN (1, 2);`: true, `SHOW SLAVE STATUS\G`: true, `\dt+`: true, `.tables`: true, `PRAGMA user_version`: true,
		`PRAGMA table_info(t)`: true, `SELECT @@version`: true, `SELECT a::text FROM t`: true,
		`DROP TABLE t`: false, `SELECT 1; DROP TABLE t`: false, `SELECT f()`: false, `SELECT "f"()`: false, `SELECT $$a$$`: false, `SELECT 1 -- x`: false,
		`SELECT E'\'; DROP TABLE t; --'`: false, `PRAGMA user_version(3)`: false, `PRAGMA user_version=3`: false, `\! id`: false, `.shell id`: false, ``: false,
		`SHOW max_connections`: true, `SHOW CREATE TABLE app.users`: true, `SELECT setting FROM pg_settings WHERE name = 'work_mem'`: true,
		`SELECT count(*) FROM mysql.slow_log`: true, `SELECT * FROM t WHERE a = 'it'`: true,
		`SELECT * FROM mysql.user`: false, "TABLE `mysql`.`global_priv`": false, `SHOW CREATE USER root`: false, `SHOW GRANTS`: false, `SHOW ALL`: false,
		`TABLE pg_subscription`: false, `SELECT "rolpassword" FROM x`: false, `SHOW primary_conninfo`: false,
		`SELECT setting FROM pg_settings WHERE name = 'primary_conninfo'`: false, `SELECT setting FROM pg_settings WHERE name LIKE 'prim%'`: false,
		`SELECT setting FROM pg_settings`: false, `SELECT 1 FROM pg_settings WHERE name = 'a' OR true`: false, `\dRs+`: false, `\deu+`: false,
		`\dconfig *`: false, `SELECT * FROM information_schema.user_mapping_options`: false, `SELECT * FROM fsdir WHERE path='/x'`: false, `SHOW TABLES WHERE f()`: false, `SELECT * FROM t FOR UPDATE`: false,
		`SELECT x.a FROM (SELECT a FROM t) AS x`: true, `SELECT c.key, c.value, c.c FROM count(1) c`: true, `SELECT (1).count`: true, `SELECT count(*) n, n.name FROM nodes n`: true,
		`SELECT a.f FROM t a, (SELECT 1) b WHERE a.id IN (1) AND b.g = 2`: true,
		`SELECT (1).pg_terminate_backend`:                                 false, `SELECT (ARRAY[1])[1].pg_terminate_backend`: false, `SELECT c.pg_read_file FROM count(1) c`: false,
		`SELECT c.pg_read_file FROM count(1) AS c`: false, `SELECT count.pg_read_file FROM count(1)`: false, `SELECT "c"."pg_sleep" FROM count((1)) c`: false,
	} {
		if got := words.SQL(statement); (got == "") != want {
			t.Errorf("%q: %q", statement, got)
		}
	}
	for _, c := range []struct {
		want  bool
		words []string
	}{
		{true, []string{"get", "a"}},
		{true, []string{"CONFIG", "GET", "maxmemory"}},
		{false, []string{"CONFIG", "GET", "*"}},
		{false, []string{"CONFIG", "SET", "a", "b"}},
		{false, []string{"FLUSHALL"}},
	} {
		if Redis(c.words) != c.want {
			t.Errorf("redis %q: %v", c.words, !c.want)
		}
	}
}

func TestOutputIsKnownOnlyWhereItIsCertain(t *testing.T) {
	for _, c := range []struct {
		want   Kind
		stages [][]string
	}{
		{Number, [][]string{{"docker", "ps", "-q"}, {"wc", "-l"}}},
		{Names, [][]string{{"docker", "ps", "-q"}, {"head", "-1"}}},
		{Names, [][]string{{"kubectl", "get", "pods", "-o", "name"}}},
		{Names, [][]string{{"docker", "ps"}, {"awk", "NR>1 {print $1}"}}},
		{Digits, [][]string{{"df"}, {"tr", "-dc", "0-9"}}},
		{Anything, [][]string{{"echo", "-x"}}},
		{Anything, [][]string{{"docker", "ps", "-q"}, {"sed", "s/^/-/"}}},
		{Anything, [][]string{{"docker", "ps", "--format", "{{.Command}}"}}},
		{Anything, [][]string{{"pgrep", "-l", "bash"}}},
		{Anything, [][]string{{"docker", "ps", "-q"}, {"grep", "-o", "x"}}},
	} {
		if got := Output(c.stages); got != c.want {
			t.Errorf("%q: %v, want %v", c.stages, got, c.want)
		}
	}
}

func TestPlainPsShowsNoEnvironment(t *testing.T) {
	for line, want := range map[string]bool{
		"": true, "aux": true, "-aux": true, "axf": true, "-ef": true, "-eF": true, "-ely": true, "-eLf": true, "-ef --forest": true, "-A -w -w -f": true,
		"-eo pid,args": true, "-e -o pid= -o args=": true, "-eopid,args:50 --sort=-%mem,+pid": true, "-eo pid --sort -rss --no-headers": true,
		"-e --format pid,comm --cols 200": true,
		"e":                               false, "auxe": false, "-auxe": false, "-axe": false, "-efx": false, "-ef -n": false, "-ef aux": false, "-ef -o args": false, "-ey": false,
		"-eLT": false, "-eTH": false, "-eT --forest": false, "-em": false, "-eo pid,environ": false, "-eo": false, "-eo pid,$x": false, "-eo pid --sort=a/b": false, "-e -p 1": false, "-e -u x": false, "--": false, "-": false,
		"-e --info": false, "-e --format environ": false, "-eo pid,,args": false, "--forest=1": false, "-eV": false,
	} {
		if PlainPs(strings.Fields(line)) != want {
			t.Errorf("ps %s: %v", line, !want)
		}
	}
}

// The program itself never reads the plain forms without their dashes, which would show the environment.
func TestPlainPsIsReadByThePsOfThisMachine(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	sleep.Env = []string{"PLAIN_PS_TEST=shown"}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	for _, letters := range []string{"", "f", "ly", "jH", "LF", "T", "TH", "ad"} {
		for _, more := range []string{"", "-o pid,args", "-O args --sort=-rss", "--forest -ww"} {
			words := strings.Fields("-e" + letters + " " + more)
			if !PlainPs(words) {
				continue
			}
			if out, _ := exec.Command("ps", words...).CombinedOutput(); strings.Contains(string(out), "PLAIN_PS_TEST") {
				t.Errorf("ps %q shows the environment", words)
			}
		}
	}
}
