package realcli_test
import ("testing"; "time"; "os"; "path/filepath"; "strings"; "syscall"; "bufio"; "encoding/json"; m "claudeops/internal/agent/messagesapi")
func (o output) result() string { for _,e := range o.events { if e.Type=="result" { return string(e.raw) } }; return "NO RESULT" }
type res struct{ Subtype string; Is_error bool; Api_error_status any; Num_turns int; Errors []string; Terminal_reason string; Result string; Stop_reason any; Permission_denials json.RawMessage }
func parse(s string) (r res) { json.Unmarshal([]byte(s),&r); return }
func TestProbePerm(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir,"bin"); os.Mkdir(bin,0o755); os.WriteFile(filepath.Join(bin,"docker"),[]byte("#!/bin/sh\necho ran docker \"$@\"\n"),0o755)
	try := func(name string, a m.Answer, ids []string, args ...string) {
		c := newCLIIn(t, dir, m.Turns(a,m.Text("done")))
		c.env = append(c.env,"PATH="+bin+":/usr/bin:/bin")
		o := c.run(base("p",append([]string{"--session-id",first,"--model","haiku"},args...)...)...)
		r := parse(o.result()); t.Logf("=== %s rc %d %s %v stderr %s denials %s",name,o.code,r.Subtype,r.Is_error,o.stderr,r.Permission_denials)
		rr := c.api.Requests(); for _,id := range ids { x,ok := rr[len(rr)-1].Result(id); t.Log("   ",id,ok,x) }
	}
	b := func(cmds ...string) (m.Answer, []string) { var a m.Answer; var ids []string; for i,c := range cmds { id := "toolu_"+string(rune('a'+i)); ids = append(ids,id); a = a.Call(id,"Bash",map[string]any{"command":c}) }; return a, ids }
	a,ids := b("touch x1","ls","docker ps","docker restart web")
	try("tools not allowed",a,ids,"--tools","Bash")
	try("allowed",a,ids,"--tools","Bash","--allowedTools","Bash")
	a,ids = b("docker restart web","docker ps","/bin/sh -c 'docker restart web'","docker restart", bin+"/docker restart web", "docker stop web && docker restart web","docker compose up")
	try("disallowed verb",a,ids,"--tools","Bash","--allowedTools","Bash","--disallowedTools","Bash(docker restart:*)")
	a,ids = b("curl http://127.0.0.1:1/")
	try("several rules",a,ids,"--tools","Bash,Read,Grep,Glob","--allowedTools","Bash,Read,Grep,Glob","--disallowedTools","Task,Agent,Bash(docker restart:*),Bash(curl:*)")
	w := m.Call("toolu_w","Write",map[string]any{"file_path":filepath.Join(dir,"out.txt"),"content":"hello\n"})
	try("write allowed",w,[]string{"toolu_w"},"--tools","Bash,Write,Edit","--allowedTools","Bash,Write,Edit")
	w = m.Call("toolu_w","Write",map[string]any{"file_path":"/tmp/cc-outside-probe/out.txt","content":"hello\n"})
	try("write outside allowed",w,[]string{"toolu_w"},"--tools","Bash,Write,Edit","--allowedTools","Bash,Write,Edit")
	e := m.Call("toolu_e","Edit",map[string]any{"file_path":filepath.Join(dir,"out.txt"),"old_string":"hello","new_string":"bye"})
	try("edit unread",e,[]string{"toolu_e"},"--tools","Bash,Write,Edit","--allowedTools","Bash,Write,Edit")
	try("grep/glob", m.Call("toolu_g","Grep",map[string]any{"pattern":"x"}).Call("toolu_h","Glob",map[string]any{"pattern":"*"}).Call("toolu_t","Task",map[string]any{"description":"d","prompt":"p","subagent_type":"general-purpose"}).Call("toolu_u","Agent",map[string]any{"description":"d","prompt":"p","subagent_type":"general-purpose"}),[]string{"toolu_g","toolu_h","toolu_t","toolu_u"},"--tools","Bash,Read,Grep,Glob,WebFetch,WebSearch","--allowedTools","Bash,Read,Grep,Glob,WebFetch,WebSearch","--disallowedTools","Task,Agent")
	d,_ := os.ReadDir(dir); t.Log(d)
	// settings
	os.MkdirAll(filepath.Join(dir,".claude"),0o755)
	os.WriteFile(filepath.Join(dir,".claude","settings.json"),[]byte(`{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"touch `+dir+`/project-hook"}]}]},"permissions":{"allow":["Bash"]},"env":{"PROJ":"1"}}`),0o644)
	set := filepath.Join(dir,"set.json"); os.WriteFile(set,[]byte(`{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"touch `+dir+`/flag-hook"}]}]},"permissions":{"allow":["Bash(touch:*)"]},"env":{"FLAG":"1"}}`),0o644)
	a,ids = b("touch x2","echo proj=$PROJ flag=$FLAG", "mkdir q")
	try("settings",a,ids,"--tools","Bash","--settings",set)
	d,_ = os.ReadDir(dir); t.Log(d)
	try("missing settings",a,nil,"--tools","Bash","--settings",set+"x")
}
func TestProbeSig(t *testing.T) {
	for _,sig := range []syscall.Signal{syscall.SIGINT,syscall.SIGINT,syscall.SIGTERM,syscall.SIGKILL} {
		c := newCLI(t, m.Turns(m.Bash("toolu_s","echo $$ > pid; exec sleep 300"),m.Text("done")))
		cmd := c.command(t.Context(), base("p","--session-id",first,"--model","haiku","--tools","Bash","--allowedTools","Bash")...)
		p,_ := cmd.StdoutPipe()
		cmd.Start()
		for { if b,_ := os.ReadFile(filepath.Join(c.dir,"pid")); len(b)>1 { break }; time.Sleep(20*time.Millisecond) }
		b,_ := os.ReadFile(filepath.Join(c.dir,"pid")); pid := strings.TrimSpace(string(b))
		start := time.Now()
		cmd.Process.Signal(sig)
		sc := bufio.NewScanner(p); sc.Buffer(nil,1<<20)
		n := 0
		for sc.Scan() { n++; if strings.Contains(sc.Text(),`"type":"result"`) { t.Logf("%+v",parse(sc.Text())) } else if strings.Contains(sc.Text(),`"type":"user"`) { t.Log(sc.Text()) } }
		err := cmd.Wait()
		_, gone := os.Stat("/proc/"+pid)
		t.Log(sig,err,cmd.ProcessState.ExitCode(),time.Since(start),n,"child gone:",gone)
		if gone == nil { st,_ := os.ReadFile("/proc/"+pid+"/stat"); t.Log(string(st)); var q int; json.Unmarshal([]byte(pid),&q); syscall.Kill(q,syscall.SIGKILL) }
		k := len(c.api.Requests())
		o := c.run(base("again","--resume",first,"--fork-session","--session-id",second,"--model","haiku","--tools","Bash")...)
		t.Logf("resume rc %d %.200s",o.code,o.result())
		for _,x := range c.api.Requests()[k].Messages { j,_ := json.Marshal(x); t.Logf("   %.250s",j) }
	}
}
