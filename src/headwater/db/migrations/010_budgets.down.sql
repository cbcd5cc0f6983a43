DROP TABLE budget_spending;
DROP TABLE budgets;
