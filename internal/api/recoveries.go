package api

import (
	"time"

	"claudeops/internal/ops"
)

// Recovery is one recovery attempt.
type Recovery struct {
	ID             int64               `json:"id"`
	CycleID        int64               `json:"cycle_id"`
	SessionID      int64               `json:"session_id" doc:"The session that failed."`
	Tier           ops.Tier            `json:"tier"`
	Level          ops.RecoveryLevel   `json:"recoveryLevel"`
	Action         ops.RecoveryAction  `json:"recoveryAction"`
	ErrorType      ops.ErrorType       `json:"errorType"`
	PreviousLevels []ops.RecoveryLevel `json:"previousLevels"`
	EnteredAt      time.Time           `json:"enteredAt"`
	NotBefore      *time.Time          `json:"notBefore"`
	Deadline       *time.Time          `json:"deadline"`
	Handler        *string             `json:"handler"`
	Reason         string              `json:"reason"`
}

// Verification is the judge's verdict on a claimed repair.
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

func recoveryRow(r ops.Recovery) Recovery {
	return Recovery{
		ID: r.ID, CycleID: int64(r.CycleID), SessionID: int64(r.SessionID), Tier: r.Tier, Level: r.Level, Action: r.Action,
		ErrorType: r.ErrorType, PreviousLevels: nonNil(r.PreviousLevels), EnteredAt: r.EnteredAt, NotBefore: r.NotBefore, Deadline: r.Deadline,
		Handler: text(r.Handler), Reason: r.Reason,
	}
}

func verificationRow(v ops.Verification) Verification {
	return Verification{
		ID: v.ID, SessionID: int64(v.SessionID), JudgeSessionID: int64(v.JudgeSessionID), Verdict: v.Verdict, Confidence: v.Confidence,
		TotalScore: v.TotalScore, Dimensions: v.Dimensions, Reasoning: v.Reasoning, FailureReasons: nonNil(v.FailureReasons),
		Recommendations: nonNil(v.Recommendations), At: v.At,
	}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
