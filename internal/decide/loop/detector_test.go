package loop

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// transcript reads a written sequence of actions: one JSON object per line, with the output in the place of its hash.
func transcript(t *testing.T, path string) []Action {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var out []Action
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var line struct {
			Action
			Output string `json:"output"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		line.OutputHash = HashOutput(line.Output)
		out = append(out, line.Action)
	}
	if lines.Err() != nil || len(out) == 0 {
		t.Fatalf("%s: %d actions, %v", path, len(out), lines.Err())
	}
	return out
}

func files(t *testing.T, kind string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("testdata", kind, "*.jsonl"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no transcripts of kind %s: %v", kind, err)
	}
	return list
}

func TestTranscripts_HealthyWorkIsNoLoop(t *testing.T) {
	wrong, actions := 0, 0
	list := files(t, "healthy")
	for _, path := range list {
		d := &Detector{}
		for n, a := range transcript(t, path) {
			actions++
			if f, found := d.Saw(a); found {
				wrong++
				t.Errorf("%s: step %d is called a loop: %+v", filepath.Base(path), n+1, f)
				break
			}
		}
	}
	t.Logf("false positives: %d in %d transcripts, %d actions", wrong, len(list), actions)
}

func TestTranscripts_EveryLoopReachesEveryThreshold(t *testing.T) {
	periods := map[string]int{"abab": 2, "abcabc": 3, "abcd": 4}
	missed := 0
	list := files(t, "loops")
	for _, path := range list {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		period := max(1, periods[name])
		d := &Detector{}
		var levels, counts []int
		for _, a := range transcript(t, path) {
			if f, found := d.Saw(a); found {
				levels, counts = append(levels, int(f.Level)), append(counts, f.Count)
				if f.Period != period || f.Call == "" {
					t.Errorf("%s: %+v, want period %d", name, f, period)
				}
			}
		}
		if len(levels) != 3 || levels[0] != 3 || levels[1] != 4 || levels[2] != 5 || counts[0] != 3 || counts[1] != 5 || counts[2] != 8 {
			missed++
			t.Errorf("%s: levels %v at counts %v, want 3, 4, 5 at 3, 5, 8", name, levels, counts)
		}
	}
	t.Logf("missed loops: %d of %d", missed, len(list))
}

// What the rules get wrong is written down, so that a change of the rules shows here.
func TestTranscripts_KnownLimits(t *testing.T) {
	for name, level := range map[string]int{
		"missed-growing-tail":          0, // one number among six words is below three quarters
		"counted-containers-by-hex-id": 5, // ids are taken for details
		"patient-growing-sleep":        0, // whoever waits between two looks gets eight times as many of them
	} {
		d := &Detector{}
		top := 0
		for _, a := range transcript(t, filepath.Join("testdata", "limits", name+".jsonl")) {
			f, _ := d.Saw(a)
			top = max(top, int(f.Level))
		}
		if top != level {
			t.Errorf("%s: level %d, was %d", name, top, level)
		}
	}
}

func TestAnAttemptDoesNotRepeatTheLastOneByLookingAgain(t *testing.T) {
	d := &Detector{}
	look := act("Bash", `{"command":"docker ps"}`, "web is down")
	for attempt := range 8 {
		d.NewAttempt()
		if f, found := d.Saw(look); found {
			t.Fatalf("attempt %d looks once and is a loop: %+v", attempt, f)
		}
	}
	for range 3 {
		d.Saw(look)
	}
	d.NewAttempt()
	d.Saw(look)
	if f, found := d.Saw(look); !found || f.Level < 4 {
		t.Errorf("a fresh attempt that falls into the same loop does not go on counting: %+v", f)
	}
}

func TestPollingForEverIsALoopInTheEnd(t *testing.T) {
	d := &Detector{}
	var at []int
	for i := 1; i <= 80; i++ {
		if _, found := d.Saw(act("Bash", `{"command":"sleep 5; docker inspect web"}`, "starting")); found {
			at = append(at, i)
		}
	}
	if len(at) < 3 || at[0] != 17 || at[1] != 33 || at[2] != 57 {
		t.Errorf("thresholds reached after %v polls, want 17, 33, 57", at)
	}
}

func act(tool, args, output string) Action {
	return Action{Tool: tool, Args: args, OutputHash: HashOutput(output)}
}

func TestSimilar(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b Action
		want bool
	}{
		{"the same", act("Bash", `{"command":"ls /srv"}`, ""), act("Bash", `{"command":"ls /srv"}`, ""), true},
		{"another tool", act("Bash", `{"path":"/srv"}`, ""), act("Read", `{"path":"/srv"}`, ""), false},
		{"order of keys", act("Grep", `{"a":"x","b":"y"}`, ""), act("Grep", `{"b":"y","a":"x"}`, ""), true},
		{"case", act("bash", `{"command":"LS /srv"}`, ""), act("Bash", `{"command":"ls /srv"}`, ""), true},
		{"another comment", act("Bash", `{"command":"ls","description":"look"}`, ""), act("Bash", `{"command":"ls","description":"look again at all of it"}`, ""), true},
		{"another file of the same name", act("Read", `{"file_path":"/a/compose.yml"}`, ""), act("Read", `{"file_path":"/b/compose.yml"}`, ""), false},
		{"another URL at the end of a long command", act("Bash", "curl -s -S -f -o /dev/null -w %{http_code} --max-time 5 http://a/", ""), act("Bash", "curl -s -S -f -o /dev/null -w %{http_code} --max-time 5 http://b/", ""), false},
		{"another name in a long command", act("Bash", "docker compose -f /srv/c.yml logs --no-color --tail 50 --timestamps web", ""), act("Bash", "docker compose -f /srv/c.yml logs --no-color --tail 50 --timestamps api", ""), false},
		{"another number in a long command", act("Bash", "docker compose -f /srv/c.yml logs --no-color --tail 50 --timestamps web", ""), act("Bash", "docker compose -f /srv/c.yml logs --no-color --tail 90 --timestamps web", ""), true},
		{"one more option", act("Bash", "docker ps -a web", ""), act("Bash", "docker ps -a web --no-trunc", ""), true},
		{"another time", act("Bash", "logs --since 2026-01-02T15:04:05Z app", ""), act("Bash", "logs --since 2026-01-02T15:09:59.5+02:00 app", ""), true},
		{"another uuid", act("Bash", "get 6f1c2e4a-1111-4222-8333-444455556666", ""), act("Bash", "get 7f1c2e4a-1111-4222-8333-444455556666", ""), true},
		{"another text to write", act("Write", `{"file_path":"/a","content":"1"}`, ""), act("Write", `{"file_path":"/a","content":"2"}`, ""), false},
		{
			"another number to write", act("Edit", `{"file_path":"/a","old_string":"timeout 5s;","new_string":"timeout 10s;"}`, ""),
			act("Edit", `{"file_path":"/a","old_string":"timeout 10s;","new_string":"timeout 20s;"}`, ""), false,
		},
		{"another end of a long text", act("Bash", strings.Repeat("word ", 100)+"a", ""), act("Bash", strings.Repeat("word ", 100)+"b", ""), false},
		{"nothing in common", act("Bash", "ls", ""), act("Bash", "df", ""), false},
		{"empty", act("Bash", "", ""), act("Bash", "", ""), true},
	} {
		if got := Similar(c.a, c.b); got != c.want {
			t.Errorf("%s: %v, want %v\n%q\n%q", c.name, got, c.want, Normalize(c.a.Args), Normalize(c.b.Args))
		}
		if Similar(c.a, c.b) != Similar(c.b, c.a) {
			t.Errorf("%s: depends on the order", c.name)
		}
	}
}

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"A":"X"}`, "a x b 1"},
		{"at 2026-01-02 15:04:05 and 15:04:05.123", "at <time> and <time>"},
		{"id 3f2a1b9c0d1e and 0xdeadbeef01", "id <hex> and <hex>"},
		{"a facade is a word, 1234567 a number, 12345 stays", "a facade is a word, <number> a number, 12345 stays"},
		{"cat /Srv/Web/compose.yml", "cat /srv/web/compose.yml"},
		{`{"command":"ls","description":"look"}`, "command ls"},
		{`[1,2]`, "[1,2]"},
	} {
		if got := Normalize(c.in); got != c.want {
			t.Errorf("%q became %q, want %q", c.in, got, c.want)
		}
	}
	if got := Normalize(strings.Repeat("wört ", 1000)); len([]rune(got)) > 200 {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

func TestSaw_AFreshAttemptGoesOnCounting(t *testing.T) {
	d := &Detector{}
	check := act("Bash", "curl http://web/health", "502")
	for range 3 {
		d.Saw(check) // an earlier attempt, from its stored transcript
	}
	if f, found := d.Saw(check); found || f.Count != 4 {
		t.Errorf("%+v %v", f, found)
	}
	if f, found := d.Saw(check); !found || f.Level != 4 || f.Count != 5 {
		t.Errorf("%+v %v", f, found)
	}
}

func TestSaw_OneCheckOfAKnownLoopIsFree(t *testing.T) {
	d := &Detector{}
	check, other := act("Bash", "curl http://web/health", "502"), act("Bash", "docker ps", "web")
	for range 3 {
		d.Saw(check)
	}
	d.Saw(other)
	if f, found := d.Saw(check); found || f.Count != 1 {
		t.Errorf("%+v %v", f, found)
	}
	if f, found := d.Saw(check); !found || f.Count != 5 || f.Level != 4 {
		t.Errorf("the second one in a row: %+v %v", f, found)
	}
}

func TestSaw_HalfARoundOfAKnownLoopIsFree(t *testing.T) {
	d := &Detector{}
	a, b := act("Bash", "docker restart web", "web"), act("Bash", "curl http://web/health", "502")
	for range 3 {
		d.Saw(a)
		d.Saw(b)
	}
	d.Saw(act("Bash", "docker ps", "web"))
	for i, step := range []Action{a, b, a} {
		if f, found := d.Saw(step); found || f.Count != 1 {
			t.Errorf("step %d: %+v %v", i, f, found)
		}
	}
	if f, found := d.Saw(b); !found || f.Count != 5 || f.Period != 2 {
		t.Errorf("the second round: %+v %v", f, found)
	}
}

func TestSaw_ALoopEnteredAgainAndAgainEndsAtTheLastLevel(t *testing.T) {
	d := &Detector{}
	check := act("Bash", "curl http://web/health", "502")
	var counts []int
	for i, n := range []int{3, 2, 2, 2} {
		for range n {
			if f, found := d.Saw(check); found {
				counts = append(counts, f.Count)
			}
		}
		d.Saw(act("Read", "/file/"+string(rune('a'+i)), "text"))
	}
	if len(counts) != 4 || counts[0] != 3 || counts[1] != 5 || counts[2] != 7 || counts[3] != 9 {
		t.Errorf("thresholds reached at %v", counts)
	}
}

func TestSaw_ACallThatDriftsAwayStartsAnew(t *testing.T) {
	d := &Detector{}
	command := "find . -name core -type f -size"
	top := 0
	for i := range 8 {
		f, _ := d.Saw(act("Bash", command, "none"))
		top = max(top, f.Count)
		command += " --option" + string(rune('a'+i))
	}
	if top > 4 {
		t.Errorf("counted up to %d", top)
	}
}

func TestSaw_AnAlternatingAnswerBetweenWaitsIsProgress(t *testing.T) {
	d := &Detector{}
	for i := range 40 {
		d.Saw(act("Bash", "sleep 5", ""))
		if f, found := d.Saw(act("Bash", "curl http://web/health", []string{"502", "503"}[i%2])); found || f.Count != 1 {
			t.Fatalf("round %d: %+v", i, f)
		}
	}
}

func TestSaw_NamesTheRepeatedCalls(t *testing.T) {
	d := &Detector{}
	var last Finding
	for range 3 {
		d.Saw(act("Bash", `{"command":"docker restart web"}`, "web"))
		last, _ = d.Saw(act("Bash", `{"command":"curl http://web/"}`, "502"))
	}
	if last.Call != "Bash docker restart web, then Bash curl http://web/" || last.Period != 2 || last.Count != 3 || last.Level != 3 {
		t.Errorf("%+v", last)
	}
}

func TestProperty_ChangedOutputNeverCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Detector{}
		calls := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b /x", "c 1 2 3", "sleep 5"}), 1, 4).Draw(t, "calls")
		n := rapid.IntRange(1, 60).Draw(t, "actions")
		for i := range n {
			a := act("Bash", calls[i%len(calls)], rapid.StringN(1, 4, 8).Draw(t, "noise")+string(rune('0'+i)))
			if f, found := d.Saw(a); found || f.Count != 1 {
				t.Fatalf("step %d: %+v", i, f)
			}
		}
	})
}

func TestProperty_AnyCycleOfUpToFourIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.IntRange(1, 4).Draw(t, "period")
		d := &Detector{}
		for i := range rapid.IntRange(0, 30).Draw(t, "before") {
			d.Saw(act("Read", "/file/"+string(rune('a'+i)), string(rune('a'+i))))
		}
		names := []string{"/one", "/two", "/three", "/four"}
		top := 0
		for i := range 8 * period {
			f, _ := d.Saw(act("Bash", "look "+names[i%period], "same"))
			top = max(top, int(f.Level))
		}
		if top != 5 {
			t.Fatalf("eight rounds of period %d reach level %d", period, top)
		}
	})
}

func FuzzDetector(f *testing.F) {
	f.Add("Bash", `{"command":"ls /srv","description":"x"}`, "out", "Read", `{"file_path":"/a"}`, "out2")
	f.Add("", "", "", "", "{", "")
	f.Add("Write", `{"content":"`+strings.Repeat("x", 300)+`"}`, "", "Bash", "curl -p 80 10.0.0.1:80 é", "")
	f.Fuzz(func(t *testing.T, tool1, args1, out1, tool2, args2, out2 string) {
		a, b := act(tool1, args1, out1), act(tool2, args2, out2)
		if !Similar(a, a) || Similar(a, b) != Similar(b, a) {
			t.Fatalf("not an equivalence: %+v %+v", a, b)
		}
		if n := Normalize(args1); len([]rune(n)) > longestText {
			t.Fatalf("%d characters", len([]rune(n)))
		}
		d := &Detector{}
		top := 0
		for range 8 {
			d.Saw(a)
			found, _ := d.Saw(b)
			top = max(top, int(found.Level))
			if found.Count < 1 || found.Period < 1 || found.Period > maxPeriod {
				t.Fatalf("%+v", found)
			}
		}
		if out1 == out2 && top != 5 {
			t.Fatalf("eight rounds of %+v and %+v reach level %d", a, b, top)
		}
	})
}
