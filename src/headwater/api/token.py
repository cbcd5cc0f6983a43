"""What routes that write say of themselves in the OpenAPI description; the app itself looks at the token."""

from fastapi import Depends
from fastapi.security import HTTPBearer

TOKEN = [Depends(HTTPBearer(auto_error=False))]
