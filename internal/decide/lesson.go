package decide

import (
	"fmt"
	"regexp"
	"strings"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// The categories of what the supervisor itself wants remembered.
const (
	lessonRootCause      = "root_cause"
	lessonKnownBadPath   = "known_bad_path"
	lessonAgentFailure   = "agent_failure"
	lessonUnknownFailure = "new_classification"
)

// lessons keeps something for later sessions, once for each affected service.
func (v view) lessons(category, observation string) []ops.Lesson {
	services := v.affected()
	if len(services) == 0 {
		services = []string{""}
	}
	var out []ops.Lesson
	for _, s := range services {
		out = append(out, CleanLesson(ops.Lesson{Category: category, Service: s, Observation: observation}))
	}
	return out
}

// lessonOf is what a cycle that ends without success teaches. A failure of the agent itself says nothing about a service.
func (v view) lessonOf(f recovery.Failure, class recovery.Class) []ops.Lesson {
	text := fmt.Sprintf("%s: %s", class.ErrorType, v.whyItFailed(*v.last))
	switch {
	case class.ErrorType == recovery.TypeUnknown:
		return []ops.Lesson{CleanLesson(ops.Lesson{Category: lessonUnknownFailure, Observation: text})}
	case recovery.AgentFailure(class.ErrorType):
		return []ops.Lesson{CleanLesson(ops.Lesson{Category: lessonAgentFailure, Observation: text})}
	case len(f.Started) > 0:
		text += ". Tried: " + strings.Join(f.Started, "; ")
	case summary(*v.last) != "":
		text += ". Tried: " + summary(*v.last)
	}
	return v.lessons(lessonRootCause, text)
}

// numbered are the numbers that mean nothing to a later session and make two equal lessons look different.
var numbered = regexp.MustCompile(`(?i)\b(session|cycle|incident)s? #?\d+( \(tier \d\))?`)

// CleanLesson removes the numbers of sessions, cycles and incidents from a lesson.
func CleanLesson(l ops.Lesson) ops.Lesson {
	l.Observation = numbered.ReplaceAllStringFunc(l.Observation, func(found string) string {
		word, _, _ := strings.Cut(strings.ToLower(found), " ")
		if word == "incident" {
			return "an earlier incident"
		}
		return "an earlier " + strings.TrimSuffix(word, "s")
	})
	return l
}
