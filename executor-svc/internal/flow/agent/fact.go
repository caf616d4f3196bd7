package agent

import storagev1 "pawl.dev/executor-svc/internal/storage/v1"

// What each step has is allocated at once, with the field that says what it is.

func initFact(description string) *storagev1.Fact {
	f := &struct {
		storagev1.Fact
		kind storagev1.Fact_StepInit
	}{}
	f.kind.StepInit = description
	f.Kind = &f.kind
	return &f.Fact
}

func startFact(waitID, input string) *storagev1.Fact {
	f := &struct {
		storagev1.Fact
		kind storagev1.Fact_StepInput
	}{}
	f.kind.StepInput = input
	f.WaitId, f.Kind = waitID, &f.kind
	return &f.Fact
}

func outputFact(output string) *storagev1.Fact {
	f := &struct {
		storagev1.Fact
		kind storagev1.Fact_StepOutput
	}{}
	f.kind.StepOutput = output
	f.Kind = &f.kind
	return &f.Fact
}
