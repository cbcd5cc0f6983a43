"""Operations on documents and days."""

from headwater.db.daily import DayFilter as DayFilter
