package api

import (
	"time"

	"claudeops/internal/ops"
)

// Recovery is one attempt the ladder ordered.
type Recovery struct {
	ID             int64              `json:"id"`
	CycleID        int64              `json:"cycle_id"`
	SessionID      int64              `json:"session_id" doc:"The session that failed."`
	Tier           int                `json:"tier"`
	Level          int                `json:"recoveryLevel"`
	Action         ops.RecoveryAction `json:"recoveryAction"`
	ErrorType      ops.ErrorType      `json:"errorType"`
	PreviousLevels []int              `json:"previousLevels"`
	EnteredAt      time.Time          `json:"enteredAt"`
	NotBefore      *time.Time         `json:"notBefore"`
	Deadline       *time.Time         `json:"deadline"`
	Handler        *string            `json:"handler"`
	Reason         string             `json:"reason"`
}

// Verification is what a judge made of a claimed repair.
type Verification struct {
	ID              int64          `json:"id"`
	SessionID       int64          `json:"session_id"`
	JudgeSessionID  int64          `json:"judge_session_id"`
	Verdict         string         `json:"verdict"`
	Confidence      float64        `json:"confidence"`
	TotalScore      int            `json:"totalScore"`
	Dimensions      map[string]int `json:"dimensions"`
	Reasoning       string         `json:"reasoning"`
	FailureReasons  []string       `json:"failureReasons"`
	Recommendations []string       `json:"recommendations"`
	At              time.Time      `json:"at"`
}

// RecoveryRow is a transition on the ladder.
func RecoveryRow(r ops.Recovery) Recovery {
	out := Recovery{
		ID: r.ID, CycleID: int64(r.CycleID), SessionID: int64(r.SessionID), Tier: int(r.Tier), Level: int(r.Level), Action: r.Action,
		ErrorType: r.ErrorType, PreviousLevels: []int{}, EnteredAt: r.EnteredAt, NotBefore: r.NotBefore, Deadline: r.Deadline,
		Handler: text(r.Handler), Reason: r.Reason,
	}
	for _, l := range r.PreviousLevels {
		out.PreviousLevels = append(out.PreviousLevels, int(l))
	}
	return out
}

func verificationRow(v ops.Verification) Verification {
	return Verification{
		ID: v.ID, SessionID: int64(v.SessionID), JudgeSessionID: int64(v.JudgeSessionID), Verdict: v.Verdict, Confidence: v.Confidence,
		TotalScore: v.TotalScore, Dimensions: v.Dimensions, Reasoning: v.Reasoning, FailureReasons: nonNil(v.FailureReasons),
		Recommendations: nonNil(v.Recommendations), At: v.At,
	}
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
