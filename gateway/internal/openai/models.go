package openai

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/gateway/internal/rest"
)

// agentPrefix begins the name of a model that is an agent.
const agentPrefix = "agent:"

// model describes a model or an agent.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Name    string `json:"name,omitempty"` // for people; not of the OpenAI API, but programs show it
}

// models serves GET /models.
func (h *Handler) models(w http.ResponseWriter, r *http.Request) {
	h.receive(w, r, rest.Incoming{Fail: fail}, func(r received) error {
		list, err := h.listModels(r.Context(), "")
		if err == nil {
			list, err = h.addAgents(r.Context(), list)
		}
		if err == nil {
			write(w, http.StatusOK, struct {
				Object string  `json:"object"`
				Data   []model `json:"data"`
			}{"list", list})
		}
		return err
	})
}

// model serves GET /models/{id}.
func (h *Handler) model(w http.ResponseWriter, r *http.Request, id string) {
	h.receive(w, r, rest.Incoming{Fail: fail}, func(r received) error {
		m, err := h.find(r.Context(), id)
		if code := status.Code(err); code == codes.NotFound || code == codes.InvalidArgument {
			err = noModel("%s", errs.From(err).Message)
		}
		if err == nil {
			write(w, http.StatusOK, m)
		}
		return err
	})
}

func (h *Handler) find(ctx context.Context, id string) (*model, error) {
	if name, ok := strings.CutPrefix(id, agentPrefix); ok {
		a, err := executorv1.NewAgentServiceClient(h.conns.Executor).GetAgent(ctx, &executorv1.GetAgentRequest{Id: name})
		if err != nil {
			return nil, err
		}
		found := agentModel(a)
		return &found, nil
	}
	list, err := h.listModels(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.ID == id {
			return &m, nil
		}
	}
	return nil, noModel("the planner %.100q is not a language model; GET %s/models lists those", id, Base)
}

// noModel returns the planner's error for a model that does not exist.
func noModel(format string, args ...any) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR, format, args...).With("model_error", "NOT_FOUND")
}

// listModels returns the models that can be asked; a name, if given, must be one of the planner's.
func (h *Handler) listModels(ctx context.Context, name string) ([]model, error) {
	resp, err := plannerv1.NewPlannerServiceClient(h.conns.Planner).ListModels(ctx, &plannerv1.ListModelsRequest{Name: name})
	if err != nil {
		return nil, err
	}
	var list []model
	for _, m := range resp.GetModels() {
		if m.GetCanGenerate() {
			list = append(list, model{ID: m.GetName(), Object: "model", OwnedBy: "pawl"})
		}
	}
	return list, nil
}

// addAgents adds the caller's agents.
func (h *Handler) addAgents(ctx context.Context, list []model) ([]model, error) {
	client := executorv1.NewAgentServiceClient(h.conns.Executor)
	for token := ""; ; {
		resp, err := client.ListAgents(ctx, &executorv1.ListAgentsRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, a := range resp.GetAgents() {
			list = append(list, agentModel(a))
		}
		if token = resp.GetNextPageToken(); token == "" {
			return list, nil
		}
	}
}

func agentModel(a *executorv1.Agent) model {
	return model{ID: agentPrefix + a.GetId(), Object: "model", Created: a.GetCreateTime().GetSeconds(), OwnedBy: "pawl", Name: a.GetDisplayName()}
}
