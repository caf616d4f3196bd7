package identity

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	identityv1 "pawl.dev/proto/gen/pawl/identity/v1"
	"pawl.dev/services/errs"
)

// defaultPage is the page size of ListApiKeys if the request has none.
const defaultPage = 50

// API implements the IdentityService.
type API struct {
	identityv1.UnimplementedIdentityServiceServer
	keys *KeyFile // nil: there are no API keys
}

// NewAPI returns the service of an authenticator. Without a key file, it can only say who the caller is.
func NewAPI(a Authenticator) *API {
	keys, _ := a.(*KeyFile)
	if c, ok := a.(*Callers); ok && c.path != "" {
		keys = c.KeyFile
	}
	return &API{keys: keys}
}

// WhoAmI implements the RPC.
func (*API) WhoAmI(ctx context.Context, _ *identityv1.WhoAmIRequest) (*identityv1.WhoAmIResponse, error) {
	p, err := FromContext(ctx)
	if err != nil {
		return nil, err
	}
	return &identityv1.WhoAmIResponse{
		Sub: p.Sub, Roles: rolesToProto(p.Roles), KeyId: p.KeyID, Issuer: p.Issuer,
		ExpireTime: timeToProto(p.Expires), OnBehalf: p.OnBehalf, OnBehalfOf: p.Rights.OnBehalfOf, Methods: p.Rights.Methods,
	}, nil
}

// CreateApiKey implements the RPC.
func (s *API) CreateApiKey(ctx context.Context, req *identityv1.CreateApiKeyRequest) (*identityv1.CreateApiKeyResponse, error) {
	p, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	if !p.IsOperator() {
		return nil, denied("only operators create API keys; ask one, or use a key with the role operator")
	}
	wanted := Key{Sub: req.GetSub(), Roles: rolesFromProto(req.GetRoles()), Note: req.GetNote(), Request: req.GetRequestId(),
		Rights: Rights{OnBehalfOf: req.GetOnBehalfOf(), Methods: req.GetMethods()}}
	if len(wanted.Roles) == 0 {
		wanted.Roles = userRoles
	}
	if at := req.GetExpireTime(); at != nil {
		wanted.Expires = at.AsTime().Truncate(time.Second)
	}
	if err := cmp.Or(wanted.Rights.check(wanted.Roles), checkMethods(wanted.Methods)); err != nil {
		return nil, keyError(err)
	}
	token, key, err := s.keys.Add(wanted)
	if err != nil {
		return nil, keyError(err)
	}
	return &identityv1.CreateApiKeyResponse{ApiKey: s.keyToProto(key), Token: token}, nil
}

// ListApiKeys implements the RPC. A page token is the id of the last key on the page before.
func (s *API) ListApiKeys(ctx context.Context, req *identityv1.ListApiKeysRequest) (*identityv1.ListApiKeysResponse, error) {
	p, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(s.keys.List(), func(k Key) bool {
		return k.ID <= req.GetPageToken() || k.Sub != p.Sub && !p.IsOperator()
	})
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	size := int(req.GetPageSize())
	if size == 0 {
		size = defaultPage
	}
	resp := &identityv1.ListApiKeysResponse{}
	if len(keys) > size {
		keys = keys[:size]
		resp.NextPageToken = keys[size-1].ID
	}
	for _, k := range keys {
		resp.ApiKeys = append(resp.ApiKeys, s.keyToProto(k))
	}
	return resp, nil
}

// RevokeApiKey implements the RPC.
func (s *API) RevokeApiKey(ctx context.Context, req *identityv1.RevokeApiKeyRequest) (*identityv1.RevokeApiKeyResponse, error) {
	p, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	own := func(k Key) bool { return k.ID == req.GetId() && (k.Sub == p.Sub || p.IsOperator()) }
	if !slices.ContainsFunc(s.keys.List(), own) {
		owner := "you have"
		if p.IsOperator() {
			owner = "there is"
		}
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND,
			"%s no API key with the id %q; list the keys to see their ids", owner, req.GetId())
	}
	if err := s.keys.Remove(req.GetId()); err != nil {
		return nil, keyError(err)
	}
	return &identityv1.RevokeApiKeyResponse{}, nil
}

// manager returns the caller of an RPC that manages keys.
func (s *API) manager(ctx context.Context) (Principal, error) {
	p, err := FromContext(ctx)
	switch {
	case err != nil:
		return p, err
	case s.keys == nil:
		return p, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG,
			"this service has no API keys; start it with a key file (--keys FILE)")
	case p.OnBehalf:
		return p, denied("keys are not managed on behalf of a user; call with the user's own key")
	}
	return p, nil
}

// keyError turns an error of a change of the key file into one for callers.
func keyError(err error) error {
	var repeated *RepeatedError
	switch {
	case errors.As(err, &repeated):
		return errs.New(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, "%w", err)
	case errors.Is(err, fs.ErrPermission), errors.As(err, new(*fs.PathError)):
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR,
			"the key file cannot be changed by this service; change it with `pawl keys` where it is stored")
	}
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%w", err)
}

func (s *API) keyToProto(k Key) *identityv1.ApiKey {
	return &identityv1.ApiKey{
		Id: k.ID, Sub: k.Sub, Roles: rolesToProto(k.Roles), Note: k.Note, Prefix: k.Prefix(),
		CreateTime: timeToProto(k.Created), ExpireTime: timeToProto(k.Expires), LastUseTime: timeToProto(s.keys.LastUsed(k.ID)),
		OnBehalfOf: k.OnBehalfOf, Methods: k.Methods,
	}
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

var roleNumbers = map[Role]identityv1.Role{
	RoleUser: identityv1.Role_ROLE_USER, RoleOperator: identityv1.Role_ROLE_OPERATOR, RoleService: identityv1.Role_ROLE_SERVICE,
}

func rolesToProto(roles []Role) []identityv1.Role {
	out := make([]identityv1.Role, len(roles))
	for i, r := range roles {
		out[i] = roleNumbers[r]
	}
	return out
}

func rolesFromProto(numbers []identityv1.Role) []Role {
	var roles []Role
	for _, r := range allRoles {
		if slices.Contains(numbers, roleNumbers[r]) {
			roles = append(roles, r)
		}
	}
	return roles
}
