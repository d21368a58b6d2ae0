package scripted

import (
	"time"

	"go.yaml.in/yaml/v3"
)

// stepKinds names the kinds of step by the key that marks them.
func (d *decoder) stepKinds(depth int) map[string]func(*yaml.Node) (Step, error) {
	return map[string]func(*yaml.Node) (Step, error){
		"say":    d.say,
		"act":    d.act,
		"bash":   d.bash,
		"pause":  d.pause,
		"write":  d.write,
		"finish": d.finish,
		"when":   func(n *yaml.Node) (Step, error) { return d.when(n, depth) },
		"repeat": func(n *yaml.Node) (Step, error) { return d.repeat(n, depth) },
	}
}

func (d *decoder) say(n *yaml.Node) (Step, error) {
	var s Say
	if err := d.object(n, "a say step", map[string]func(*yaml.Node) error{"say": d.text(&s.Text)}); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) bash(n *yaml.Node) (Step, error) {
	s := Bash{Line: n.Line}
	err := d.object(n, "a bash step", map[string]func(*yaml.Node) error{
		"bash": d.text(&s.Command),
		"expect_failure": func(n *yaml.Node) error {
			s.ExpectFailure = new(bool)
			return d.flag(s.ExpectFailure)(n)
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) act(n *yaml.Node) (Step, error) {
	var s Act
	err := d.object(n, "an act step", map[string]func(*yaml.Node) error{
		"act": func(n *yaml.Node) error {
			err := d.object(n, "act", map[string]func(*yaml.Node) error{
				"service": d.text(&s.Service), "action": d.text(&s.Action), "why": d.text(&s.Why),
			})
			if err == nil && (s.Service == "" || s.Action == "" || s.Why == "") {
				err = d.fail(n, `act needs "service", "action" and "why"`)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) pause(n *yaml.Node) (Step, error) {
	var s Pause
	err := d.object(n, "a pause step", map[string]func(*yaml.Node) error{
		"pause": scalar(d, &s.Duration, "a duration such as 500ms", func(v time.Duration) bool { return v >= 0 }),
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) write(n *yaml.Node) (Step, error) {
	var s Write
	err := d.object(n, "a write step", map[string]func(*yaml.Node) error{
		"write": func(n *yaml.Node) error {
			err := d.object(n, "write", map[string]func(*yaml.Node) error{
				"path":    d.text(&s.Path),
				"content": scalar(d, &s.Content, "a text", nil),
			})
			if err == nil && s.Path == "" {
				err = d.fail(n, `write needs a "path"`)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) finish(n *yaml.Node) (Step, error) {
	var s Finish
	err := d.object(n, "a finish step", map[string]func(*yaml.Node) error{
		"finish": func(n *yaml.Node) error { return d.object(n, "finish", d.endingKeys(&s.Ending)) },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) repeat(n *yaml.Node, depth int) (Step, error) {
	var s Repeat
	err := d.object(n, "a repeat step", map[string]func(*yaml.Node) error{
		"repeat": scalar(d, &s.Times, "a number from 1 to 1000", func(v int) bool { return v >= 1 && v <= maxRepeat }),
		"steps": func(n *yaml.Node) (err error) {
			s.Steps, err = d.list(n, depth+1)
			return err
		},
	})
	if err == nil && len(s.Steps) == 0 {
		err = d.fail(n, `repeat needs "steps"`)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) when(n *yaml.Node, depth int) (Step, error) {
	var s When
	list := func(into *[]Step) func(*yaml.Node) error {
		return func(n *yaml.Node) (err error) {
			*into, err = d.list(n, depth+1)
			return err
		}
	}
	err := d.object(n, "a when step", map[string]func(*yaml.Node) error{
		"when":  func(n *yaml.Node) error { return d.condition(n, &s) },
		"steps": list(&s.Then),
		"else":  list(&s.Else),
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) condition(n *yaml.Node, s *When) error {
	var (
		contains FileContains
		bash     BashExits
		hasExit  bool
	)
	err := d.object(n, "when", map[string]func(*yaml.Node) error{
		"file_contains": func(n *yaml.Node) error {
			s.Contains = &contains
			err := d.object(n, "file_contains", map[string]func(*yaml.Node) error{
				"path": d.text(&contains.Path),
				"text": d.text(&contains.Text),
			})
			if err == nil && (contains.Path == "" || contains.Text == "") {
				err = d.fail(n, `file_contains needs "path" and "text"`)
			}
			return err
		},
		"bash": func(n *yaml.Node) error {
			s.Bash = &bash
			return d.text(&bash.Command)(n)
		},
		"exit": func(n *yaml.Node) error {
			hasExit = true
			return d.exitCode(&bash.Exit)(n)
		},
	})
	switch {
	case err != nil:
		return err
	case (s.Contains == nil) == (s.Bash == nil):
		return d.fail(n, "when needs either file_contains or bash")
	case hasExit && s.Bash == nil:
		return d.fail(n, "exit in when belongs to bash")
	}
	return nil
}
