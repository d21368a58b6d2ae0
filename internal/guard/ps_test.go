package guard

import (
	"os/exec"
	"strings"
	"testing"
)

func TestPlainPsShowsNoEnvironment(t *testing.T) {
	for line, want := range map[string]bool{
		"": true, "aux": true, "-aux": true, "axf": true, "-ef": true, "-eF": true, "-el": true, "-eLf": true, "-ef --forest": true, "-A -w -w -f": true,
		"-eo pid,args": true, "-e -o pid= -o args=": true, "-eopid,args:50 --sort=-%mem,+pid": true, "-eo pid --sort -rss --no-headers": true,
		"-e --format pid,comm --cols 200": true, "aux --sort=-%cpu": true, "axe --sort=rss": false, "aux -e": false, "aux --sort=rss e": false,
		"e": false, "auxe": false, "-auxe": false, "-axe": false, "-efx": false, "-ef -n": false, "-ef aux": false, "-ef -o args": false, "-ey": false,
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
	must(t, sleep.Start())
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
