package api

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// GetStoreInfo implements ExecutorService.
func (s *Tasks) GetStoreInfo(ctx context.Context, _ *executorv1.GetStoreInfoRequest) (*executorv1.StoreInfo, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	if !who.IsOperator() {
		return nil, errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
			"only an operator may look at the whole journal; GET /v1/tasks lists your own tasks")
	}
	info, err := s.StoreInfo(ctx)
	if err != nil {
		return nil, fault(err, nil)
	}
	info.RunningTasks = int32(s.Engine.Running())
	return info, nil
}
